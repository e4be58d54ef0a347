package redis

import _ "embed"

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

// setNXScripts are those of the layout setnx.
type setNXScripts struct{ enter, renew, leave, look, remove *script }

// newSetNXScripts returns the scripts, each after a part that says what a key is; that is a string if the part is empty.
func newSetNXScripts(keys string) *setNXScripts {
	make := func(part string) *script { return newScript(keys + setNXParseLua + part) }
	quick := func(lone, part string) *script {
		if keys != "" {
			lone = "" // it is for strings
		}
		return newScript(lone + keys + setNXParseLua + part)
	}
	return &setNXScripts{
		enter: quick(setNXEnterLoneLua, setNXEnterLua+setNXStampLua+setNXTakeLua), leave: quick(setNXLeaveLoneLua, setNXLeaveLua),
		renew: make(setNXRenewLua),
		look:  make(setNXLookLua), remove: make(setNXBreakLua),
	}
}
