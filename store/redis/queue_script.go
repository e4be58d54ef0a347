package redis

import (
	"cmp"
	_ "embed"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/stilelock/stile/store/redis/internal/conn"
)

//go:embed lua/queue/read.lua
var readLua string

//go:embed lua/queue/load.lua
var loadLua string

//go:embed lua/queue/enter_lone.lua
var enterLoneLua string

//go:embed lua/queue/leave_lone.lua
var leaveLoneLua string

//go:embed lua/queue/rest.lua
var restLua string

//go:embed lua/queue/long.lua
var longLua string

//go:embed lua/queue/long_find.lua
var longFindLua string

//go:embed lua/queue/long_prolong.lua
var longProlongLua string

//go:embed lua/queue/long_enter.lua
var longEnterLua string

//go:embed lua/queue/long_renew.lua
var longRenewLua string

//go:embed lua/queue/long_leave.lua
var longLeaveLua string

//go:embed lua/queue/rule.lua
var ruleLua string

//go:embed lua/queue/enter.lua
var enterLua string

//go:embed lua/queue/renew.lua
var renewLua string

//go:embed lua/queue/renew_many.lua
var renewManyLua string

//go:embed lua/queue/leave.lua
var leaveLua string

//go:embed lua/queue/break.lua
var breakLua string

//go:embed lua/queue/list.lua
var listLua string

// queueScripts are the scripts of the queue. Stay is enter for a claim that is already in the queue. Stay and renew read the
// beginning of a queue before the rest; enter and leave begin with the part that suffices for a lone claim.
type queueScripts struct {
	enter, stay, renew, renewMany, leave, remove, list *conn.Script
}

// A queueForm says when a queue is in the long form: with its up-th claim it becomes long, and with fewer
// than down claims short again.
type queueForm struct{ up, down int }

var (
	usualForm = queueForm{up: 9, down: 5}
	shortForm = queueForm{up: math.MaxInt32, down: math.MaxInt32} // of a user without the rights to change a string in place
)

// queueScriptsOf returns the scripts for a server. Clients share them: scripts of its own would take each client 90 KiB.
func queueScriptsOf(evenIfFull string, sharded bool, form queueForm) *queueScripts {
	kind := scriptKind{evenIfFull, sharded, form}
	if made, ok := sharedScripts.Load(kind); ok {
		return made.(*queueScripts)
	}
	made, _ := sharedScripts.LoadOrStore(kind, newQueueScripts(evenIfFull, sharded, form))
	return made.(*queueScripts)
}

type scriptKind struct {
	evenIfFull string
	sharded    bool
	form       queueForm
}

var sharedScripts sync.Map // of *queueScripts, by scriptKind

// newQueueScripts returns the scripts for a server. All but enter begin with the line that lets them run when its memory is
// full: a claim in a queue can stay and leave. With sharded channels, they publish by SPUBLISH.
func newQueueScripts(evenIfFull string, sharded bool, form queueForm) *queueScripts {
	own := map[string]string{
		"PUBLISH": "'PUBLISH'", "SHARDED": strconv.FormatBool(sharded),
		"LONG": strconv.Itoa(form.up), "LEAST": strconv.Itoa(form.down),
		// The numbers are texts, so that the server does not format them each time: a lock and unlock takes it 7.9 µs, and
		// 8.5 with numbers (go test -run '^$' -bench Scripts -benchtime 40x .).
		"READ": "'GETRANGE', key, '0', '" + strconv.Itoa(page-1) + "'",
		// Claims in a queue read only the fields that a holder and a waiting process use: then no second command is needed,
		// and little garbage is left of the script's data.
		"SKIM": "'GETRANGE', key, '0', '" + strconv.Itoa(skim-1) + "'",
	}
	if sharded {
		own["PUBLISH"] = "'SPUBLISH'"
	}
	inPlace := form != shortForm
	skimLua, mostLua := readLua, restLua // readLua and restLua for claims in the queue
	if inPlace {
		skimLua, mostLua = strings.Replace(readLua, "READ", "SKIM", 1), strings.Replace(restLua, "PAGE", strconv.Itoa(skim), 1)
	} else {
		own["READ"] = "'GET', key"
	}
	filled := func(text string) string {
		return words.ReplaceAllStringFunc(text, func(word string) string { return cmp.Or(own[word], constants[word], word) })
	}
	own["FIND"], own["PROLONG"] = filled(longFindLua), filled(longProlongLua)
	make := func(first string, parts ...string) *conn.Script {
		return conn.NewScript(first+filled(strings.Join(parts, "")), nil)
	}
	long := func(verb string, settles bool) string {
		if !inPlace {
			return ""
		}
		return strings.Replace(longLua, "SETTLES", strconv.FormatBool(settles), 1) + verb
	}
	return &queueScripts{
		enter:  make("", enterLoneLua, readLua, loadLua, restLua, long(longEnterLua, false), ruleLua, enterLua),
		stay:   make(evenIfFull, skimLua, loadLua, mostLua, long(longEnterLua, false), ruleLua, enterLua),
		renew:  make(evenIfFull, skimLua, loadLua, mostLua, long(longRenewLua, false), ruleLua, renewLua),
		leave:  make(evenIfFull, readLua, leaveLoneLua, loadLua, restLua, long(longLeaveLua, true), ruleLua, leaveLua),
		remove: make(evenIfFull, readLua, loadLua, restLua, ruleLua, breakLua),
		list:   make("", readLua, loadLua, restLua, ruleLua, listLua),

		renewMany: make(evenIfFull, renewManyLua),
	}
}

var words = regexp.MustCompile(`\b[A-Z]+\b`)

const (
	page = 2048 // bytes of a queue that are read first; most short queues have fewer
	skim = 512  // the same, for a claim that is in the queue
)

// constants are the words in capitals in the scripts. They are not variables there: a Lua function pays for each variable
// around it whenever it is made, and the functions are made on every call. Variables took a third of the time.
var constants = map[string]string{
	"MARK": "'stile1'", "HEAD": "'>c6I4d'", "HEADSIZE": "18",
	"CLAIM": "'>dI4dddBI2I2I2I2'", "CLAIMSIZE": "45", "SIZES": "'>I2I2I2I2'", "BEFORESIZES": "37",
	// of strings that a client packs: a claim, and HEAD with a claim
	"PARTS": "'>dc0ddc0Bc0'", "HEADCLAIM": "'>c0ddc0ddc0Bc0'",
	// of a queue of one claim: from the last ticket to the claim's state, where this part begins, and where the rest begins
	"LONE": "'>ddI4dddB'", "LONEFROM": "11", "LONEREST": "56",
	// the long form: its head, the part from the last ticket on, and where this begins; where fields of a slot are
	"LONGMARK": "'stile2'", "LONGHEAD": "'>c6I4ddI4I4I4I4I4I4I4d'", "LONGHEADSIZE": "62",
	"LONGHEADREST": "'>ddI4I4I4I4I4I4I4d'", "LONGHEADLAST": "'10'",
	"ATWEIGHT": "8", "ATENDS": "20", "ATSTATE": "36",
	"WIDEST":  "1024", // bytes of a claim in it; all slots have the size of the largest
	"PAGE":    strconv.Itoa(page),
	"NEAR":    "8",   // slots before a waiter that are searched for the claim before it
	"COUNTED": "256", // slots from the head that are looked at for the first waiter, and in which empty ones are counted
	// SINCE is less than the time by this much in claims of clients that know the long form. Other clients do not change it.
	"MODERN": "0.5",
	// the fields of a claim
	"FROM": "1", "TICKET": "2", "WEIGHT": "3", "SINCE": "4", "ENDS": "5", "DELAY": "6", "STATE": "7",
	"ID": "8", "CLIENT": "9", "OWNER": "10", "RECORD": "11", "TEXTS": "12",
	// its states: waits, notified that it holds, released and kept until it ends, and, in the long form, gone
	"WAITS": "0", "TOLD": "1", "LEFT": "2", "EMPTY": "3",
}

func (s *queueScripts) all() []*conn.Script {
	return []*conn.Script{s.enter, s.stay, s.renew, s.leave, s.remove, s.list, s.renewMany}
}
