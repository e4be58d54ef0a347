package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/guard"
)

//go:embed lua/guard/check.lua
var guardLua string

//go:embed lua/guard/raise.lua
var guardRaiseLua string

// DefaultMarks begins the keys of a guard's marks.
const DefaultMarks = "stile-guard/"

// GuardOptions are the settings of [NewGuard]. Nil and the zero value mean the defaults.
type GuardOptions struct {
	Prefix string // begins the keys of marks, without braces; empty means DefaultMarks

	// Keep is how long a mark is kept after the last raise; it must be longer than any pause of a holder. 0 means forever:
	// there is a mark for each resource that was ever used.
	Keep time.Duration
}

// A Guard makes keys of Redis check the fencing token of the lock that protects them: see package guard. The mark of a
// resource is a key beside it. The lock itself may be in another store.
type Guard struct {
	client rueidis.Client
	prefix string
	keep   time.Duration
	raise  *rueidis.Lua
}

// NewGuard returns a guard that uses the caller's client. It sends no request.
func NewGuard(client rueidis.Client, o *GuardOptions) (*Guard, error) {
	if o == nil {
		o = &GuardOptions{}
	}
	g := &Guard{client: client, prefix: o.Prefix, keep: o.Keep, raise: rueidis.NewLuaScript(guardLua + guardRaiseLua)}
	if g.prefix == "" {
		g.prefix = DefaultMarks
	}
	if strings.ContainsAny(g.prefix, "{}") || g.keep < 0 {
		return nil, fmt.Errorf("guard: %w: a prefix has no braces, and marks are not kept for less than no time",
			guard.ErrInvalid)
	}
	return g, nil
}

// Raise shows a token to a resource, and returns the functions that read and write its keys. The resource is a key's name,
// or the part in braces that the names of several keys share, as in {orders/42}/state. All keys of one resource must have
// that part in braces, or the resource's own name, so that they and the mark are in one slot of a cluster. If a resource's
// name contains a brace, it must be such a name with a part in braces.
func (g *Guard) Raise(ctx context.Context, resource string, token int64) (*Keys, error) {
	if err := guard.Valid(resource, token); err != nil {
		return nil, err
	}
	k := &Keys{g: g, resource: resource, tag: hashTag(resource), token: token}
	if strings.Contains(k.tag, "}") {
		return nil, fmt.Errorf("guard: %w resource: %q has braces that do not enclose a part of it",
			guard.ErrInvalid, resource)
	}
	k.mark = g.prefix + "{" + k.tag + "}" + resource
	args := []string{guard.FormatToken(token), number(g.keep.Milliseconds())}
	answer, err := g.raise.Exec(ctx, g.client, []string{k.mark}, args).ToArray()
	if err != nil {
		return nil, fmt.Errorf("guard: %q: %w", resource, err)
	}
	if _, err := k.parseAnswer(answer); err != nil {
		return nil, err
	}
	return k, nil
}

// Marks returns the guard's marks for a [guard.Handler].
func (g *Guard) Marks() guard.Marks { return guardMarks{g} }

type guardMarks struct{ g *Guard }

func (m guardMarks) Raise(ctx context.Context, resource string, token int64) error {
	_, err := m.g.Raise(ctx, resource, token)
	return err
}

// Keys are the keys of a resource that was shown a token. Each method checks the token and runs its command in one step:
// if the error is [guard.ErrStale] or [guard.ErrNotRaised], nothing was changed. Its methods may be called at once.
type Keys struct {
	g                   *Guard
	resource, tag, mark string
	token               int64
}

// The scripts that the methods run after the check. A script is constant, so that the server keeps it.
const (
	getBody  = "return redis.call('GET', KEYS[1])"
	setBody  = "return redis.call('SET', KEYS[1], unpack(ARGV))"
	hsetBody = "return redis.call('HSET', KEYS[1], unpack(ARGV))"
	delBody  = "return redis.call('DEL', unpack(KEYS))"
)

// Get returns the text of a key, and whether there is one.
func (k *Keys) Get(ctx context.Context, key string) (value string, ok bool, err error) {
	m, err := k.Eval(ctx, getBody, []string{key}, nil)
	if err != nil || m.IsNil() {
		return "", false, err
	}
	value, err = m.ToString()
	return value, err == nil, err
}

// Set sets the value of a key, for a time that is rounded to the server's milliseconds; 0 means for ever.
func (k *Keys) Set(ctx context.Context, key, value string, ttl time.Duration) error {
	args := []string{value}
	if ttl > 0 {
		args = append(args, "PX", number(max(1, ttl.Milliseconds())))
	}
	_, err := k.Eval(ctx, setBody, []string{key}, args)
	return err
}

// HSet sets fields of a hash, given as field, value, field, value and so on.
func (k *Keys) HSet(ctx context.Context, key string, fields ...string) error {
	_, err := k.Eval(ctx, hsetBody, []string{key}, fields)
	return err
}

// Del removes keys.
func (k *Keys) Del(ctx context.Context, keys ...string) error {
	_, err := k.Eval(ctx, delBody, keys, nil)
	return err
}

// Check checks whether the token is still the mark. The answer may be out of date when it arrives: a write needs its own
// check, which the other methods make.
func (k *Keys) Check(ctx context.Context) error {
	_, err := k.Eval(ctx, "return false", nil, nil)
	return err
}

// Eval runs the body of a Lua script of the caller's own after the check, on KEYS and ARGV as given here, and returns its
// result. The body must be constant, since the server keeps every different text; pass varying values as arguments.
func (k *Keys) Eval(ctx context.Context, body string, keys, args []string) (m rueidis.RedisMessage, err error) {
	for _, key := range keys {
		if hashTag(key) != k.tag {
			return m, fmt.Errorf("guard: %w key: %q is not of resource %q: it needs {%s} in its name",
				guard.ErrInvalid, key, k.resource, k.tag)
		}
	}
	script := rueidis.NewLuaScript(guardLua +
		"do local refused = check(KEYS, ARGV) if refused then return refused end end\n" +
		"return {'ok', (function() " + body + "\nend)()}")
	keys, args = append(slices.Clone(keys), k.mark), append(slices.Clone(args), guard.FormatToken(k.token))
	answer, err := script.Exec(ctx, k.g.client, keys, args).ToArray()
	if err != nil {
		return m, fmt.Errorf("guard: %q: %w", k.resource, err)
	}
	return k.parseAnswer(answer)
}

// parseAnswer reads a script's answer: 'ok' and a value, or 'mark' and the mark.
func (k *Keys) parseAnswer(answer []rueidis.RedisMessage) (m rueidis.RedisMessage, err error) {
	if len(answer) < 1 {
		return m, fmt.Errorf("guard: %q: the script gave no answer", k.resource)
	}
	if word, _ := answer[0].ToString(); word == "ok" {
		if len(answer) > 1 {
			m = answer[1]
		}
		return m, nil
	}
	if len(answer) < 2 {
		return m, fmt.Errorf("guard: %q: the script gave half an answer", k.resource)
	}
	mark, _ := answer[1].ToString()
	newer := int64(0)
	if mark != "" {
		if newer, err = guard.ParseToken(mark); err != nil {
			return m, fmt.Errorf("guard: %q: key %q holds something else than a mark", k.resource, k.mark)
		}
	}
	return m, guard.Judge(k.resource, k.token, newer)
}

// hashTag returns the part of a key by which a cluster finds its slot.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
