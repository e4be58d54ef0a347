package redis

import (
	_ "embed"
	"strings"

	"github.com/stilelock/stile/store/redis/internal/conn"
)

//go:embed lua/value/parse.lua
var valueParseLua string

//go:embed lua/value/enter_lone.lua
var valueEnterLoneLua string

//go:embed lua/value/leave_lone.lua
var valueLeaveLoneLua string

//go:embed lua/value/enter.lua
var valueEnterLua string

//go:embed lua/value/stamp.lua
var valueStampLua string

//go:embed lua/value/take.lua
var valueTakeLua string

//go:embed lua/value/renew.lua
var valueRenewLua string

//go:embed lua/value/leave.lua
var valueLeaveLua string

//go:embed lua/value/look.lua
var valueLookLua string

//go:embed lua/value/break.lua
var valueBreakLua string

//go:embed lua/exset/keys.lua
var exSetKeysLua string

// valueScripts are the scripts of one value. Stay is enter for a claim that waits.
type valueScripts struct{ enter, stay, renew, leave, look, remove *conn.Script }

// stringScripts returns the scripts of a value that is a string. All but enter begin with the line that lets them run when
// the memory of the server is full, as with the queue.
func stringScripts(c *conn.Conn) *valueScripts {
	return newValueScripts(c.EvenIfFull(), valueEnterLoneLua, valueLeaveLoneLua, "")
}

// exSetScripts returns the scripts of a value that is a TairString, whose commands come first. The quick parts are for
// strings.
func exSetScripts() *valueScripts { return newValueScripts("", "", "", exSetKeysLua) }

func newValueScripts(evenIfFull, enterLone, leaveLone, commands string) *valueScripts {
	make := func(first string, parts ...string) *conn.Script {
		return conn.NewScript(first+commands+valueParseLua+strings.Join(parts, ""), nil)
	}
	return &valueScripts{
		enter:  make(enterLone, valueEnterLua, valueStampLua, valueTakeLua),
		stay:   make(evenIfFull, valueEnterLua, valueStampLua, valueTakeLua),
		renew:  make(evenIfFull, valueRenewLua),
		leave:  make(evenIfFull+leaveLone, valueLeaveLua),
		look:   make("", valueLookLua),
		remove: make(evenIfFull, valueBreakLua),
	}
}

func (s *valueScripts) all() []*conn.Script {
	return []*conn.Script{s.enter, s.stay, s.renew, s.leave, s.look, s.remove}
}
