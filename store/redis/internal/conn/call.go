package conn

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// A Request is what a script is run on: one key, the id that the answer must name, and further arguments.
type Request struct {
	Key, ID string
	Args    []string
}

// AtOnce is how many requests one pipeline carries, so that a batch does not keep the server from others for long.
const AtOnce = 256

// Run runs a script and returns its answer, without the part that says whose it is.
func (c *Conn) Run(ctx context.Context, s *Script, key, id string, args ...string) (Answer, error) {
	q := Request{Key: key, ID: id, Args: args}
	if err := c.connected(ctx, q.Key); err != nil {
		return nil, c.explain(ctx, err)
	}
	bounded, err := c.bound(ctx)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	defer bounded.release()
	at := c.primary()
	r := c.client.Do(bounded.Context, c.evalsha(s, q))
	if noScript(r) { // the server was started anew, or told to forget its scripts
		r = c.client.Do(bounded.Context, c.eval(s, q))
	}
	if err := c.deposed(at); err != nil {
		return nil, err
	}
	return c.read(ctx, r, s, q)
}

// Spread reports whether keys may be on several servers.
func (c *Conn) Spread() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// RunTogether runs a script on many keys of one server. The answer names the first key and the first argument.
func (c *Conn) RunTogether(ctx context.Context, s *Script, keys, args []string) (Answer, error) {
	if err := c.connected(ctx, keys[0]); err != nil {
		return nil, c.explain(ctx, err)
	}
	bounded, err := c.bound(ctx)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	defer bounded.release()
	at, b, n := c.primary(), c.client.B(), int64(len(keys))
	r := c.client.Do(bounded.Context, b.Evalsha().Sha1(s.sha).Numkeys(n).Key(keys...).Arg(args...).Build())
	if noScript(r) {
		r = c.client.Do(bounded.Context, b.Eval().Script(s.text).Numkeys(n).Key(keys...).Arg(args...).Build())
	}
	if err := c.deposed(at); err != nil {
		return nil, err
	}
	return c.read(ctx, r, s, Request{Key: keys[0], ID: args[0]})
}

// SetNX sets a key that is not there, for some milliseconds, and tells whether it did. No other answer than these two is taken for
// one. OK does not say to which request it is; a PING that goes with it, as in ordered, would say so, and cost as much as the SET.
func (c *Conn) SetNX(ctx context.Context, key, value string, millis int64) (bool, error) {
	if err := c.connected(ctx, key); err != nil {
		return false, c.explain(ctx, err)
	}
	bounded, err := c.bound(ctx)
	if err != nil {
		return false, c.explain(ctx, err)
	}
	defer bounded.release()
	at := c.primary()
	r := c.client.Do(bounded.Context, c.client.B().Set().Key(key).Value(value).Nx().PxMilliseconds(millis).Build())
	if err := c.deposed(at); err != nil {
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

// RunAll runs a script on many keys, and hands each answer over with the index of its request.
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
		// In a cluster each name may be on another server; elsewhere what is true of one is true of all.
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
		cmds[i] = c.evalsha(s, q)
	}
	at := c.primary()
	for i, r := range c.client.DoMulti(bounded.Context, cmds...) {
		if noScript(r) {
			r = c.client.Do(bounded.Context, c.eval(s, part[i]))
		}
		a, err := c.read(ctx, r, s, part[i])
		if moved := c.deposed(at); moved != nil {
			a, err = nil, moved
		}
		each(first+i, a, err)
	}
}

// primary returns the address of the server that the client's requests go to, where that can become another.
func (c *Conn) primary() string {
	if c.client.Mode() == rueidis.ClientModeSentinel {
		for addr := range c.client.Nodes() {
			return addr
		}
	}
	return ""
}

// deposed returns an error if the server at an address, which had a request, is not the primary any more. Such a server may
// have stood still with the request while another became the primary, and goes on as if it were the primary itself. What
// it grants or keeps then counts for nobody else. So its answer is worth nothing, whatever it says.
func (c *Conn) deposed(at string) error {
	if now := c.primary(); now != at {
		err := fmt.Errorf("redis at %s had the request, and %s is the primary now", at, now)
		return driver.Unknown(driver.Unreachable(err))
	}
	return nil
}

func (c *Conn) evalsha(s *Script, q Request) rueidis.Completed {
	if s.beside == nil {
		return c.client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(q.Key).Arg(q.ID).Arg(q.Args...).Build()
	}
	keys := s.keys(q.Key)
	return c.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(q.ID).Arg(q.Args...).Build()
}

func (c *Conn) eval(s *Script, q Request) rueidis.Completed {
	keys := s.keys(q.Key)
	return c.client.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(q.ID).Arg(q.Args...).Build()
}

func noScript(r rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(r.Error())
	return ok && refusal.IsNoScript()
}

// Keep returns the value of a key, which is the given one if the key had none.
func (c *Conn) Keep(ctx context.Context, key, value string) (string, error) {
	if err := c.connected(ctx, key); err != nil {
		return "", c.explain(ctx, err)
	}
	bounded, err := c.bound(ctx)
	if err != nil {
		return "", c.explain(ctx, err)
	}
	defer bounded.release()
	at, b := c.primary(), c.client.B()
	r := c.client.Do(bounded.Context, b.Get().Key(key).Build())
	if rueidis.IsRedisNil(r.Error()) {
		set := c.client.Do(bounded.Context, b.Set().Key(key).Value(value).Nx().Build())
		if err := set.Error(); err != nil && !rueidis.IsRedisNil(err) {
			c.note(set)
			return "", c.explain(ctx, err)
		}
		r = c.client.Do(bounded.Context, b.Get().Key(key).Build())
	}
	if err := c.deposed(at); err != nil {
		return "", err
	}
	c.note(r)
	if wrongType(r) {
		return "", fmt.Errorf("%w: key %q is not a string", driver.ErrForeign, key)
	}
	kept, err := r.ToString()
	return kept, c.explain(ctx, err)
}
