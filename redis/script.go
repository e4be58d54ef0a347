package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
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
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the server's name for the script, not a defence
	return &script{text, hex.EncodeToString(sum[:])}
}

// scripts are those that the driver runs.
type scripts struct{ enter, stay, renew, leave, remove, list *script }

// newScripts returns the scripts for a server. One that can allow it (allowOOM) lets all but enter run when its memory
// is full: a claim that is in a queue can stay alive and leave. With sharded channels, clients are told by SPUBLISH.
func newScripts(allowOOM, sharded bool) *scripts {
	publish, exceed := "'PUBLISH'", ""
	if sharded {
		publish = "'SPUBLISH'"
	}
	if allowOOM {
		exceed = "#!lua flags=allow-oom\n"
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

// run runs a script on one key and returns its answer, without the part that says whose it is.
func (d *Driver) run(ctx context.Context, s *script, key, id string, args []string) (answer, error) {
	r := d.do(ctx, key, func() rueidis.Completed { return d.evalsha(s, key, args) })
	if noScript(r) {
		r = d.do(ctx, key, func() rueidis.Completed { return d.eval(s, key, args) })
	}
	return d.read(ctx, r, key, id)
}

func (d *Driver) evalsha(s *script, key string, args []string) rueidis.Completed {
	return d.client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(key).Arg(args...).Build()
}

func (d *Driver) eval(s *script, key string, args []string) rueidis.Completed {
	return d.client.B().Eval().Script(s.text).Numkeys(1).Key(key).Arg(args...).Build()
}

func noScript(r rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(r.Error())
	return ok && refusal.IsNoScript()
}

// do sends a command. While there is no connection, it first waits for one, no longer than ctx lasts, and does not
// send the command without.
func (d *Driver) do(ctx context.Context, key string, cmd func() rueidis.Completed) rueidis.RedisResult {
	if err := d.connected(ctx, key); err != nil {
		return rueidis.NewErrorResult(err)
	}
	ctx, release := d.bound(ctx)
	defer release()
	r := d.client.Do(ctx, cmd())
	d.note(ctx, r)
	return r
}

// bound returns the context for a call of the client, which ends with ctx and with the driver, and never lasts for ever.
func (d *Driver) bound(ctx context.Context) (context.Context, func()) {
	if d.dialer == nil {
		joined, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(d.ctx, cancel)
		return joined, func() { stop(); cancel() }
	}
	cancel := func() {}
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, patience)
	}
	stop := d.dialer.heed(ctx) // the dialer ends the calls when the driver is closed
	return ctx, func() { stop(); cancel() }
}

// note remembers whether the connection is gone.
func (d *Driver) note(ctx context.Context, r rueidis.RedisResult) {
	if r.NonRedisError() != nil && !errors.Is(r.NonRedisError(), ctx.Err()) {
		d.down.Store(true)
	}
}

// connected waits until the server that has a key answers, if the last call found no connection. The client waits for
// a connection longer than its caller may want to: it is made for whoever comes next.
func (d *Driver) connected(ctx context.Context, key string) error {
	if err := d.ctx.Err(); err != nil {
		return driver.ErrClosed
	}
	if !d.down.Load() {
		return nil
	}
	answered := make(chan error, 1)
	if !d.spawn(func() {
		ask, cancel := context.WithTimeout(d.ctx, probeWithin)
		defer cancel()
		var err error
		for range 2 { // the first may only find out that the old connection is gone
			if err = d.client.Do(ask, d.evalsha(d.scripts.list, key, []string{""})).NonRedisError(); err == nil {
				d.down.Store(false)
				break
			}
		}
		answered <- err
	}) {
		return driver.ErrClosed
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.ctx.Done():
		return driver.ErrClosed
	case err := <-answered:
		if err != nil {
			return &unsent{err}
		}
		return nil
	}
}

// An answer is what a script returned after key and id.
type answer []rueidis.RedisMessage

// read takes an answer apart and makes sure that it is the one to this request.
func (d *Driver) read(ctx context.Context, r rueidis.RedisResult, key, id string) (answer, error) {
	list, err := r.ToArray()
	if err = d.explain(ctx, err); errors.Is(err, driver.ErrForeign) {
		return nil, foreignKey(key, "string")
	}
	if err != nil {
		return nil, err
	}
	a := answer(list)
	if len(a) < 3 || a.text(0) != key || a.text(1) != id {
		return nil, errors.New("redis answered another request than this one: the connection is not to be trusted")
	}
	rest := a[3:]
	switch status := a.text(2); status {
	case "ok":
		return rest, nil
	case "gone":
		return nil, driver.ErrGone
	case "foreign":
		return nil, foreignKey(key, rest.text(0))
	case "capacity":
		return nil, &driver.CapacityError{Have: rest.number(0)}
	default:
		return nil, fmt.Errorf("redis answered with unknown status %q", status)
	}
}

func foreignKey(key, kind string) error {
	return fmt.Errorf("%w: key %q is a %s", driver.ErrForeign, key, kind)
}

func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].ToString()
	return s
}

func (a answer) number(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].AsInt64()
	return n
}

func (a answer) span(i int) time.Duration { return time.Duration(a.number(i)) * time.Microsecond }

// standings takes the claims apart that begin at i.
func (a answer) standings(i int) []driver.Standing {
	const fields = 7
	var list []driver.Standing
	for ; i+fields <= len(a); i += fields {
		list = append(list, driver.Standing{
			Ticket: a.number(i), Weight: a.number(i + 1), Holds: a.number(i+2) == 1, Left: a.number(i+3) == 1,
			Since: a.span(i + 4), Remaining: a.span(i + 5), Record: a.text(i + 6),
		})
	}
	return list
}
