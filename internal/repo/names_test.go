package repo

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// One word has one meaning, and is the field's own; docs/explain/architecture.md has the glossary. oldWords has the former
// words of names, by folder, with their successors. A folder's words also count for the folders in it.
var oldWords = map[string]map[string]string{
	"driver": {
		"Standing": "ClaimInfo", "Departure": "Release", "Breakage": "BreakRequest", "Told": "Notified",
		"Bound": "InSession", "Pinned": "OwnClient", "Whole": "FullWait", "Brief": "ShortRecord",
	},
	"driver/drivertest": {},
	"store/sqldb":       {"Glance": "PollRequest", "Sight": "PollResult", "Ringer": "Waker", "bell": "signal", "ring": "wake", "ear": "breakWatch", "stirred": "recheck", "stir": "makeDue"},
	"store/sqlite":      {"bell": "signal", "ring": "wake", "stirred": "recheck"},
	"store/memory":      {"ear": "alerted", "Deaf": "Unnotified", "deaf": "unnotified"},
	"internal/engine":   {"deaf": "unanswered"},
	"store/mysql": {
		"bell": "wakeups", "ring": "wake", "mooring": "sleepLock", "berth": "sleepPlace", "anchor": "secondLock", "stirred": "recheck",
	},
	"store/memcached": {"shelf": "exchanger", "crowd": "batch"},
	"cmd/stile":       {"wish": "Want", "vigil": "waitView", "Cast": "Processes", "hall": "fleet", "till": "shopDB"},
	"examples/demo":   {"Cast": "Processes", "hall": "fleet", "till": "shopDB", "troupe": "processes", "stage": "setup", "play": "run"},
	"proof/bench":     {"crowd": "contention", "bell": "signal", "rung": "wakeups", "hush": "stopLogging"},
	"proof/chaos":     {"hush": "stopLogging"},
	"internal/demo": {"Cast": "Processes", "Actor": "Process", "actor": "process", "Hire": "Start", "theatre": "demo",
		"stage": "setup", "Showing": "Display"},
	"internal/inbox":  {"Keeper": "Subscriber", "Keeps": "Needs", "Told": "Received"},
	"internal/claims": {"gate": "line", "seat": "entry", "toil": "worker", "courtesy": "yield"},
	"store/redis": {
		"mail": "inbox", "box": "inbox", "compared": "tairCAS", "possession": "heldClaim", "voter": "quorumMember",
		"heed": "interruptWhenDone", "bell": "signal", "phrase": "contains", "ear": "breakWatch", "Hear": "OnChange",
		"Hush": "ReleaseSignal", "Tells": "ReportsChanges", "deaf": "refused",
	},
	"store/postgres":  {"deed": "call", "door": "advisoryKey", "era": "serverID", "alerts": "failoverWatch", "ear": "breakWatch", "earful": "watchedClaim", "deaf": "pollReason"},
	"store/etcd":      {"pulse": "keepAliver", "beat": "keepAlive", "past": "storeIdentity", "fly": "send", "land": "done"},
	"store/consul":    {"stake": "localClaim", "survey": "precheck", "bury": "deleteDead", "arrive": "enterNew", "guard": "lockKey", "hush": "resendAfter"},
	"store/zookeeper": {"stake": "localClaim", "minder": "janitor", "bell": "signal", "survey": "precheck", "crowd": "batchFrom", "hush": "silenceLimit"},
	"store/quorum":    {"crowd": "contention", "pass": "skipLead", "ghost": "earlier", "lane": "nodeQueue", "toil": "worker"},
	"store/shard":     {"roll": "membership", "crossing": "dualHold"},
}

var nameWord = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

func TestOldWords(t *testing.T) { report(t, oldNames(golang(load(t)))) }

// oldNames finds names that are declared with a word of before. An exported word is looked for as it is written.
func oldNames(files []*file) (problems []string) {
	for _, f := range files {
		words := oldWordsOf(path.Dir(f.path))
		if f.testing() || len(words) == 0 {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			for old, now := range words {
				if has(id.Name, old) {
					problems = append(problems, fmt.Sprintf("%s: %s: say %s, not %s", f.at(id.Pos()), id.Name, now, old))
				}
			}
			return true
		})
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

func oldWordsOf(dir string) map[string]string {
	for ; dir != "."; dir = path.Dir(dir) {
		if words := oldWords[dir]; words != nil {
			return words
		}
	}
	return nil
}

// has reports whether a name has a word, or more of what it names.
func has(name, word string) bool {
	if ast.IsExported(word) {
		return name == word
	}
	for _, part := range nameWord.FindAllString(name, -1) {
		if part = strings.ToLower(part); part == word || part == word+"s" {
			return true
		}
	}
	return false
}

func TestOldWordsCheck(t *testing.T) {
	try(t, oldNames, []sample{
		{name: "word", path: "store/quorum/x.go", text: "package x\ntype ghost int", want: []string{"store/quorum/x.go:2: ghost: say earlier, not ghost"}},
		{name: "part", path: "store/quorum/x.go", text: "package x\nvar oldGhosts int", want: []string{"store/quorum/x.go:2: oldGhosts: say earlier, not ghost"}},
		{name: "folder in it", path: "store/redis/internal/conn/x.go", text: "package x\nfunc heed() {}",
			want: []string{"store/redis/internal/conn/x.go:2: heed: say interruptWhenDone, not heed"}},
		{name: "exported", path: "driver/x.go", text: "package x\ntype Brief int\nvar brief int", want: []string{"driver/x.go:2: Brief: say ShortRecord, not Brief"}},
		{name: "within a word", path: "store/quorum/x.go", text: "package x\nvar ghostly, passed int"},
		{name: "elsewhere", path: "store/etcd/x.go", text: "package x\ntype ghost int"},
		{name: "test", path: "store/quorum/x_test.go", text: "package x\ntype ghost int"},
	})
}
