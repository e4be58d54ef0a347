package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

//go:embed lua/load.lua
var loadLua string

//go:embed lua/enter_lone.lua
var enterLoneLua string

//go:embed lua/leave_lone.lua
var leaveLoneLua string

//go:embed lua/rule.lua
var ruleLua string

//go:embed lua/enter.lua
var enterLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/leave.lua
var leaveLua string

//go:embed lua/break.lua
var breakLua string

//go:embed lua/list.lua
var listLua string

// A script is constant: all input comes through KEYS and ARGV.
type script struct {
	text, sha string
	beside    func(key string) string // names a second key that it uses; nil if there is none
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the server's name for the script, not a defence
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// keys returns the keys that a script runs on.
func (s *script) keys(key string) []string {
	if s.beside == nil {
		return []string{key}
	}
	return []string{key, s.beside(key)}
}

// scripts are those that the driver runs.
type scripts struct{ enter, stay, renew, leave, remove, list *script }

// allowsOOM is the first line of a script that runs although the server's memory is full.
const allowsOOM = "#!lua flags=allow-oom\n"

// newScripts returns the scripts for a server. One that can allow it (allowOOM) lets all but enter run when its memory
// is full: a claim that is in a queue can stay alive and leave. With sharded channels, clients are told by SPUBLISH.
func newScripts(allowOOM, sharded bool) *scripts {
	publish, exceed := "'PUBLISH'", ""
	if sharded {
		publish = "'SPUBLISH'"
	}
	if allowOOM {
		exceed = allowsOOM
	}
	make := func(first string, parts ...string) *script {
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
		return newScript(first + text)
	}
	return &scripts{
		enter:  make("", loadLua, enterLoneLua, ruleLua, enterLua),
		stay:   make(exceed, loadLua, ruleLua, enterLua),
		renew:  make(exceed, loadLua, ruleLua, renewLua),
		leave:  make(exceed, loadLua, leaveLoneLua, ruleLua, leaveLua),
		remove: make(exceed, loadLua, ruleLua, breakLua),
		list:   make("", loadLua, ruleLua, listLua),
	}
}

var words = regexp.MustCompile(`\b[A-Z]+\b`)

// constants are the words in capitals in the scripts. They are not variables there, since a Lua function pays for each
// variable around it whenever it is made, and the functions are made on every call: it came to a third of the time.
var constants = map[string]string{
	"MARK": "'stile1'", "HEAD": "'>c6I4d'", "HEADSIZE": "18", "CLAIM": "'>dI4dddBI2I2I2I2'", "HEADCLAIM": "'>c6I4ddI4dddBI2I2I2I2'",
	// the fields of a claim
	"FROM": "1", "TICKET": "2", "WEIGHT": "3", "SINCE": "4", "ENDS": "5", "DELAY": "6", "STATE": "7",
	"ID": "8", "CLIENT": "9", "OWNER": "10", "RECORD": "11", "TEXTS": "12",
	// its states: told that it holds; released, and kept until it ends
	"WAITS": "0", "TOLD": "1", "LEFT": "2",
}

func (s *scripts) all() []*script {
	return []*script{s.enter, s.stay, s.renew, s.leave, s.remove, s.list}
}
