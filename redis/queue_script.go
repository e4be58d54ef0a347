package redis

import (
	_ "embed"
	"regexp"
	"strconv"
	"strings"

	"github.com/stilelock/stile/redis/internal/conn"
)

//go:embed lua/queue/load.lua
var loadLua string

//go:embed lua/queue/enter_lone.lua
var enterLoneLua string

//go:embed lua/queue/leave_lone.lua
var leaveLoneLua string

//go:embed lua/queue/rule.lua
var ruleLua string

//go:embed lua/queue/enter.lua
var enterLua string

//go:embed lua/queue/renew.lua
var renewLua string

//go:embed lua/queue/leave.lua
var leaveLua string

//go:embed lua/queue/break.lua
var breakLua string

//go:embed lua/queue/list.lua
var listLua string

// queueScripts are those of the queue. Stay is enter for a claim that is in it.
type queueScripts struct{ enter, stay, renew, leave, remove, list *conn.Script }

// newQueueScripts returns the scripts for a server. All but enter begin with what lets them run when its memory is full: a
// claim that is in a queue can stay alive and leave. With sharded channels, clients are told by SPUBLISH.
func newQueueScripts(evenIfFull string, sharded bool) *queueScripts {
	publish := "'PUBLISH'"
	if sharded {
		publish = "'SPUBLISH'"
	}
	make := func(first string, parts ...string) *conn.Script {
		text := words.ReplaceAllStringFunc(strings.Join(parts, ""), func(word string) string {
			switch {
			case word == "PUBLISH":
				return publish
			case word == "SHARDED":
				return strconv.FormatBool(sharded)
			case constants[word] != "":
				return constants[word]
			}
			return word
		})
		return conn.NewScript(first+text, nil)
	}
	return &queueScripts{
		enter:  make("", loadLua, enterLoneLua, ruleLua, enterLua),
		stay:   make(evenIfFull, loadLua, ruleLua, enterLua),
		renew:  make(evenIfFull, loadLua, ruleLua, renewLua),
		leave:  make(evenIfFull, loadLua, leaveLoneLua, ruleLua, leaveLua),
		remove: make(evenIfFull, loadLua, ruleLua, breakLua),
		list:   make("", loadLua, ruleLua, listLua),
	}
}

var words = regexp.MustCompile(`\b[A-Z]+\b`)

// constants are the words in capitals in the scripts. They are not variables there, since a Lua function pays for each
// variable around it whenever it is made, and the functions are made on every call: it came to a third of the time.
var constants = map[string]string{
	"MARK": "'stile1'", "HEAD": "'>c6I4d'", "HEADSIZE": "18",
	"CLAIM": "'>dI4dddBI2I2I2I2'", "HEADCLAIM": "'>c6I4ddI4dddBI2I2I2I2'",
	// the fields of a claim
	"FROM": "1", "TICKET": "2", "WEIGHT": "3", "SINCE": "4", "ENDS": "5", "DELAY": "6", "STATE": "7",
	"ID": "8", "CLIENT": "9", "OWNER": "10", "RECORD": "11", "TEXTS": "12",
	// its states: told that it holds; released, and kept until it ends
	"WAITS": "0", "TOLD": "1", "LEFT": "2",
}

func (s *queueScripts) all() []*conn.Script {
	return []*conn.Script{s.enter, s.stay, s.renew, s.leave, s.remove, s.list}
}
