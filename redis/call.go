package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// A request is what a script is run on: one key, and arguments of which the first is the id.
type request struct {
	key, id string
	args    []string
}

// primary returns the address of the server that the client's requests go to, where that can become another.
func (d *Driver) primary() string {
	if d.client.Mode() == rueidis.ClientModeSentinel {
		for addr := range d.client.Nodes() {
			return addr
		}
	}
	return ""
}

// deposed returns an error if the server at an address, which had a request, is not the primary any more. One that stood
// still with the request, and goes on when another is the primary, answers as if it were one still: nobody else heeds
// what it grants or keeps.
func (d *Driver) deposed(at string) error {
	if now := d.primary(); now != at {
		return driver.Unknown(driver.Unreachable(fmt.Errorf("redis at %s had the request, and %s is the primary now", at, now)))
	}
	return nil
}

// run runs a script and returns its answer, without the part that says whose it is.
func (d *Driver) run(ctx context.Context, s *script, q request) (answer, error) {
	if err := d.connected(ctx, q.key); err != nil {
		return nil, d.explain(ctx, err)
	}
	bounded, release := d.bound(ctx)
	defer release()
	at := d.primary()
	r := d.client.Do(bounded, d.evalsha(s, q))
	if noScript(r) {
		r = d.client.Do(bounded, d.eval(s, q))
	}
	if err := d.deposed(at); err != nil {
		return nil, err
	}
	return d.read(ctx, r, s, q)
}

// setNX sets a key that is not there, and tells whether it did.
func (d *Driver) setNX(ctx context.Context, key, value string, ttl time.Duration) (bool, error) {
	if err := d.connected(ctx, key); err != nil {
		return false, d.explain(ctx, err)
	}
	bounded, release := d.bound(ctx)
	defer release()
	at := d.primary()
	r := d.client.Do(bounded, d.client.B().Set().Key(key).Value(value).Nx().PxMilliseconds(millis(ttl)).Build())
	if err := d.deposed(at); err != nil {
		return false, err
	}
	err := r.Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if r.NonRedisError() != nil {
		d.down.Store(true)
	}
	return err == nil, d.explain(ctx, err)
}

// atOnce is how many requests one pipeline carries, so that a batch does not keep the server from others for long.
const atOnce = 256

// runAll runs a script on many keys, and hands each answer over with the index of its request.
func (d *Driver) runAll(ctx context.Context, s *script, all []request, each func(i int, a answer, err error)) {
	for begin := 0; begin < len(all); begin += atOnce {
		part := all[begin:min(begin+atOnce, len(all))]
		d.pipeline(ctx, s, part, func(i int, a answer, err error) { each(begin+i, a, err) })
	}
}

func (d *Driver) pipeline(ctx context.Context, s *script, part []request, each func(i int, a answer, err error)) {
	first := 0
	for err := error(nil); first < len(part); first++ {
		// In a cluster each name may be on another server; elsewhere what is true of one is true of all.
		if first == 0 || d.client.Mode() == rueidis.ClientModeCluster {
			err = d.connected(ctx, part[first].key)
		}
		if err == nil {
			break
		}
		each(first, nil, d.explain(ctx, err))
	}
	if part = part[first:]; len(part) == 0 {
		return
	}
	bounded, release := d.bound(ctx)
	defer release()
	cmds := make([]rueidis.Completed, len(part))
	for i, q := range part {
		cmds[i] = d.evalsha(s, q)
	}
	at := d.primary()
	answers := d.client.DoMulti(bounded, cmds...)
	moved := d.deposed(at)
	for i, r := range answers {
		if noScript(r) {
			r = d.client.Do(bounded, d.eval(s, part[i]))
		}
		a, err := d.read(ctx, r, s, part[i])
		if moved != nil {
			a, err = nil, moved
		}
		each(first+i, a, err)
	}
}

func (d *Driver) evalsha(s *script, q request) rueidis.Completed {
	keys := s.keys(q.key)
	return d.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(q.args...).Build()
}

func (d *Driver) eval(s *script, q request) rueidis.Completed {
	keys := s.keys(q.key)
	return d.client.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(q.args...).Build()
}

func noScript(r rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(r.Error())
	return ok && refusal.IsNoScript()
}

// bound returns the context for a call of the client, which ends with ctx and with the driver, and never lasts for ever.
func (d *Driver) bound(ctx context.Context) (context.Context, func()) {
	if d.dialer == nil {
		joined, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(d.ctx, cancel)
		return joined, func() { stop(); cancel() }
	}
	cancel := func() {}
	if until, ok := ctx.Deadline(); !ok || time.Until(until) > patience {
		ctx, cancel = context.WithTimeout(ctx, patience)
	}
	stop := d.dialer.heed(ctx) // the dialer ends the calls when the driver is closed
	return ctx, func() { stop(); cancel() }
}

// connected waits until the server that has a key answers, if the last call found no connection. The client waits for
// a connection longer than its caller may want to: it is made for whoever comes next.
func (d *Driver) connected(ctx context.Context, key string) error {
	if err := d.ctx.Err(); err != nil {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return &unsent{err}
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
			if err = d.client.Do(ask, d.evalsha(d.scripts.list, request{key: key, args: []string{""}})).NonRedisError(); err == nil {
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
		return &unsent{ctx.Err()}
	case <-d.ctx.Done():
		return driver.ErrClosed
	case err := <-answered:
		if err != nil {
			return &unsent{err}
		}
		return nil
	}
}
