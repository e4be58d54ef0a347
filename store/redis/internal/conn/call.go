package conn

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// A Request has the arguments of a script: one key, the id that the answer must repeat, and further ones.
type Request struct {
	Key, ID string
	Args    []string
}

// AtOnce is how many requests one pipeline carries, so that a batch does not block the server for long.
const AtOnce = 256

// call runs do on the server of a key, when there is a connection and room. The error says that the call was not made, or
// was made on a server that is no longer the primary.
func (c *Conn) call(ctx context.Context, key string, do func(ctx context.Context)) error {
	if err := c.connected(ctx, key); err != nil {
		return c.explain(ctx, err)
	}
	bounded, err := c.bound(ctx)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer bounded.release()
	at := c.primary()
	do(bounded.Context)
	return c.deposed(at)
}

// Run runs a script and returns its answer, without the part that identifies its request.
func (c *Conn) Run(ctx context.Context, s *Script, key, id string, args ...string) (Answer, error) {
	return c.run(ctx, s, s.keys(key), Request{Key: key, ID: id, Args: args})
}

// RunTogether runs a script on many keys of one server. The answer names the first key and the first argument.
func (c *Conn) RunTogether(ctx context.Context, s *Script, keys, args []string) (Answer, error) {
	return c.run(ctx, s, keys, Request{Key: keys[0], ID: args[0], Args: args[1:]})
}

func (c *Conn) run(ctx context.Context, s *Script, keys []string, q Request) (Answer, error) {
	var r rueidis.RedisResult
	err := c.call(ctx, q.Key, func(ctx context.Context) {
		if r = c.client.Do(ctx, c.evalsha(s, keys, q)); noScript(r) { // after a restart, or a flush of the scripts
			r = c.client.Do(ctx, c.eval(s, keys, q))
		}
	})
	if err != nil {
		return nil, err
	}
	return c.read(ctx, r, s, q)
}

// Spread reports whether keys may be on several servers.
func (c *Conn) Spread() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// SetNX sets a key unless it exists, for some milliseconds, and reports whether it did. Any answer other than OK and nil is
// an error. OK does not name its request; a PING after it, as in ordered, would do so, but cost as much as the SET.
func (c *Conn) SetNX(ctx context.Context, key, value string, millis int64) (bool, error) {
	var r rueidis.RedisResult
	err := c.call(ctx, key, func(ctx context.Context) {
		r = c.client.Do(ctx, c.client.B().Set().Key(key).Value(value).Nx().PxMilliseconds(millis).Build())
	})
	if err != nil {
		return false, err
	}
	text, err := r.ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return false, nil
	case err == nil && text == "OK":
		return true, nil
	case err == nil:
		return false, c.Mixed()
	}
	c.note(r)
	return false, c.explain(ctx, err)
}

// RunAll runs a script on many keys, and passes on each answer with the index of its request.
func (c *Conn) RunAll(ctx context.Context, s *Script, all []Request, each func(i int, a Answer, err error)) {
	for begin := 0; begin < len(all); begin += AtOnce {
		part := all[begin:min(begin+AtOnce, len(all))]
		c.pipeline(ctx, s, part, func(i int, a Answer, err error) { each(begin+i, a, err) })
		driver.Heard(ctx, len(part))
	}
}

func (c *Conn) pipeline(ctx context.Context, s *Script, part []Request, each func(i int, a Answer, err error)) {
	first := 0
	for err := error(nil); first < len(part); first++ {
		// In a cluster each name may be on another server; otherwise one server has all names.
		if first == 0 || c.client.Mode() == rueidis.ClientModeCluster {
			err = c.connected(ctx, part[first].Key)
		}
		if err == nil {
			break
		}
		each(first, nil, c.explain(ctx, err))
	}
	if part = part[first:]; len(part) == 0 {
		return
	}
	bounded, err := c.bound(ctx)
	if err != nil {
		for i := range part {
			each(first+i, nil, c.explain(ctx, err))
		}
		return
	}
	defer bounded.release()
	cmds := make([]rueidis.Completed, len(part))
	for i, q := range part {
		cmds[i] = c.evalsha(s, s.keys(q.Key), q)
	}
	at := c.primary()
	for i, r := range c.client.DoMulti(bounded.Context, cmds...) {
		if noScript(r) {
			r = c.client.Do(bounded.Context, c.eval(s, s.keys(part[i].Key), part[i]))
		}
		a, err := c.read(ctx, r, s, part[i])
		if moved := c.deposed(at); moved != nil {
			a, err = nil, moved
		}
		each(first+i, a, err)
	}
}

// primary returns the address of the primary, or "" if it cannot change.
func (c *Conn) primary() string {
	if c.client.Mode() == rueidis.ClientModeSentinel {
		for addr := range c.client.Nodes() {
			return addr
		}
	}
	return ""
}

// deposed returns an error if the server at an address, which had a request, is no longer the primary. Such a server may
// have stopped with the request, while another became the primary, and go on as if it were still the primary. Its grants and
// renewals are unknown to the new primary, so its answer is worthless.
func (c *Conn) deposed(at string) error {
	if now := c.primary(); now != at {
		err := fmt.Errorf("redis at %s had the request, and %s is the primary now", at, now)
		return driver.Unknown(driver.Unreachable(err))
	}
	return nil
}

func (c *Conn) evalsha(s *Script, keys []string, q Request) rueidis.Completed {
	return c.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(q.ID).Arg(q.Args...).Build()
}

func (c *Conn) eval(s *Script, keys []string, q Request) rueidis.Completed {
	return c.client.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(q.ID).Arg(q.Args...).Build()
}

func noScript(r rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(r.Error())
	return ok && refusal.IsNoScript()
}

// Keep sets a key to a value unless it exists, and returns the key's value.
func (c *Conn) Keep(ctx context.Context, key, value string) (string, error) {
	var r rueidis.RedisResult
	err := c.call(ctx, key, func(ctx context.Context) {
		b := c.client.B()
		if r = c.client.Do(ctx, b.Get().Key(key).Build()); !rueidis.IsRedisNil(r.Error()) {
			return
		}
		if r = c.client.Do(ctx, b.Set().Key(key).Value(value).Nx().Build()); r.Error() == nil || rueidis.IsRedisNil(r.Error()) {
			r = c.client.Do(ctx, b.Get().Key(key).Build())
		}
	})
	if err != nil {
		return "", err
	}
	c.note(r)
	if wrongType(r) {
		return "", fmt.Errorf("%w: key %q is not a string", driver.ErrForeign, key)
	}
	kept, err := r.ToString()
	return kept, c.explain(ctx, err)
}
