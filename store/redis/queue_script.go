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

// queueScripts are the scripts of the queue. Stay is enter for a claim that is in the queue itself. It and renew read
// the beginning of a queue before the rest; enter and leave begin with the part that suffices for a claim that is
// alone.
type queueScripts struct {
	enter, stay, renew, renewMany, leave, remove, list *conn.Script
}

// A queueForm says how long a queue is that is stored in the long form: once it has up to so many claims, and as long as it
// has down to so many.
type queueForm struct{ up, down int }

var (
	usualForm = queueForm{up: 9, down: 5}
	shortForm = queueForm{up: math.MaxInt32, down: math.MaxInt32} // of a user without the rights to change a string in place
)

// queueScriptsOf returns the scripts for a server. Clients share them: scripts for each client would take 90 KiB
// each.
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

// newQueueScripts returns the scripts for a server. All but enter begin with what lets them run when its memory is full: a
// claim that is in a queue can stay alive and leave. With sharded channels, clients are told by SPUBLISH.
func newQueueScripts(evenIfFull string, sharded bool, form queueForm) *queueScripts {
	own := map[string]string{
		"PUBLISH": "'PUBLISH'", "SHARDED": strconv.FormatBool(sharded),
		"LONG": strconv.Itoa(form.up), "LEAST": strconv.Itoa(form.down),
		// The numbers are texts, so that the server does not write them out each time: a lock and unlock takes it 7.9 µs so, and 8.5
		// with numbers (go test -run '^$' -bench Scripts -benchtime 40x .).
		"READ": "'GETRANGE', key, '0', '" + strconv.Itoa(page-1) + "'",
		// Claims in a queue read the fields that a holder and a waiting process use, so that no second command is
		// needed for them, and no more, since data that a script reads is garbage when it ends.
		"SKIM": "'GETRANGE', key, '0', '" + strconv.Itoa(skim-1) + "'",
	}
	if sharded {
		own["PUBLISH"] = "'SPUBLISH'"
	}
	inPlace := form != shortForm
	skimLua, mostLua := readLua, restLua // readLua and restLua of who is in the queue
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
	page = 2048 // bytes of a queue that are read at first; more than most short ones have
	skim = 512  // by a claim that is in it
)

// constants are the words in capitals in the scripts. They are not variables there, since a Lua function pays for each
// variable around it whenever it is made, and the functions are made on every call: it came to a third of the time.
var constants = map[string]string{
	"MARK": "'stile1'", "HEAD": "'>c6I4d'", "HEADSIZE": "18",
	"CLAIM": "'>dI4dddBI2I2I2I2'", "CLAIMSIZE": "45", "SIZES": "'>I2I2I2I2'", "BEFORESIZES": "37",
	// of strings that a client has packed: a claim, and HEAD with a claim
	"PARTS": "'>dc0ddc0Bc0'", "HEADCLAIM": "'>c0ddc0ddc0Bc0'",
	// of a queue of one claim: from the last ticket to the claim's state, where that begins, and where the rest does
	"LONE": "'>ddI4dddB'", "LONEFROM": "11", "LONEREST": "56",
	// the long form: its head, the part from the last ticket on, and where that begins; where fields of a slot are
	"LONGMARK": "'stile2'", "LONGHEAD": "'>c6I4ddI4I4I4I4I4I4I4d'", "LONGHEADSIZE": "62",
	"LONGHEADREST": "'>ddI4I4I4I4I4I4I4d'", "LONGHEADLAST": "'10'",
	"ATWEIGHT": "8", "ATENDS": "20", "ATSTATE": "36",
	"WIDEST":  "1024", // bytes of a claim in it: what one claim has, all slots have
	"PAGE":    strconv.Itoa(page),
	"NEAR":    "8",   // slots before a waiter in which the claim before it is looked for
	"COUNTED": "256", // slots from the head that are looked at for the first waiter, and in which empty ones are counted
	// SINCE is this much less than the time, in claims of clients that know the long form. Others keep it as it is.
	"MODERN": "0.5",
	// the fields of a claim
	"FROM": "1", "TICKET": "2", "WEIGHT": "3", "SINCE": "4", "ENDS": "5", "DELAY": "6", "STATE": "7",
	"ID": "8", "CLIENT": "9", "OWNER": "10", "RECORD": "11", "TEXTS": "12",
	// its states: told that it holds; released, and kept until it ends; in the long form, gone
	"WAITS": "0", "TOLD": "1", "LEFT": "2", "EMPTY": "3",
}

func (s *queueScripts) all() []*conn.Script {
	return []*conn.Script{s.enter, s.stay, s.renew, s.leave, s.remove, s.list, s.renewMany}
}
