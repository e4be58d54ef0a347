package redis

import (
	_ "embed"
	"strings"
)

//go:embed lua/setnx/parse.lua
var setNXParseLua string

//go:embed lua/setnx/enter_lone.lua
var setNXEnterLoneLua string

//go:embed lua/setnx/leave_lone.lua
var setNXLeaveLoneLua string

//go:embed lua/setnx/enter.lua
var setNXEnterLua string

//go:embed lua/setnx/stamp.lua
var setNXStampLua string

//go:embed lua/setnx/take.lua
var setNXTakeLua string

//go:embed lua/setnx/renew.lua
var setNXRenewLua string

//go:embed lua/setnx/leave.lua
var setNXLeaveLua string

//go:embed lua/setnx/look.lua
var setNXLookLua string

//go:embed lua/setnx/break.lua
var setNXBreakLua string

// setNXScripts are those of the layout setnx. Stay is enter for a claim that waits.
type setNXScripts struct{ enter, stay, renew, leave, look, remove *script }

// newSetNXScripts returns the scripts, each after a part that says what a key is; that is a string if the part is empty. A
// server that can allow it (allowOOM) lets all but enter run when its memory is full, as with the queue.
func newSetNXScripts(keys string, allowOOM bool) *setNXScripts {
	exceed := ""
	if allowOOM {
		exceed = allowsOOM
	}
	make := func(lone, first string, parts ...string) *script {
		if keys != "" {
			lone = "" // it is for strings
		}
		return newScript(first + lone + keys + setNXParseLua + strings.Join(parts, ""))
	}
	return &setNXScripts{
		enter:  make(setNXEnterLoneLua, "", setNXEnterLua, setNXStampLua, setNXTakeLua),
		stay:   make("", exceed, setNXEnterLua, setNXStampLua, setNXTakeLua),
		renew:  make("", exceed, setNXRenewLua),
		leave:  make(setNXLeaveLoneLua, exceed, setNXLeaveLua),
		look:   make("", "", setNXLookLua),
		remove: make("", exceed, setNXBreakLua),
	}
}
