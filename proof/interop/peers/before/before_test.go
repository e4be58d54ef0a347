//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A scene is a few clients of two versions on one name of a store, in tables of its own where the store has tables. So the
// version that comes first also makes the tables.
type scene struct {
	store  *store
	before revision // the earlier version's revision
	space  string

	mu      sync.Mutex // guards the fields below
	token   int64      // the highest one so far
	clients []*client
}

func (s *scene) lock(p *process, kind string) (*client, error) {
	c, err := p.ask("lock", kind, s.store.lease(), s.store.url(s.space), "name-"+s.space)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c, err
}

// void reports whether a client knows that it could not renew its lease in time, on a busy machine. Then others may hold by
// right, and the scene shows nothing.
func (s *scene) void() bool { return slices.ContainsFunc(s.clients, (*client).late) }

// holds waits until a client holds, and checks its token.
func (s *scene) holds(c *client, within time.Duration) error {
	token, err := c.holds(within)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.tokens && token <= s.token {
		return fmt.Errorf("%s has token %d after %d; want more", c.p.who, token, s.token)
	}
	s.token = token
	return nil
}

// takes asks for a lock and waits until it is held.
func (s *scene) takes(p *process) (*client, error) {
	c, err := s.lock(p, "alone")
	if err != nil {
		return nil, err
	}
	return c, s.holds(c, patience)
}

// tries returns the answer to a try.
func (s *scene) tries(p *process, kind string) (answer, error) {
	c, err := p.ask("try", kind, s.store.lease(), s.store.url(s.space), "name-"+s.space)
	if err != nil {
		return answer{}, err
	}
	a, ok := c.hear(patience)
	if !ok {
		err = fmt.Errorf("%s still tries after %v", p.who, patience)
	}
	return a, err
}

// busy returns an error if a try gets the lock.
func (s *scene) busy(p *process, kind string) error {
	a, err := s.tries(p, kind)
	if err == nil && a.verb != "busy" {
		err = fmt.Errorf("%s tries: %s %s; want busy", p.who, a.verb, a.text)
	}
	return err
}

// meet lets the first version block the second one, also beyond its first lease, and then hand over to it.
func (s *scene) meet(first, second *process) error {
	a, err := s.takes(first)
	if err != nil {
		return err
	}
	if err := s.busy(second, "alone"); err != nil {
		return err
	}
	b, err := s.lock(second, "alone")
	if err != nil {
		return err
	}
	if err := b.waits(s.store.lease() * 5 / 4); err != nil {
		return err
	}
	if err := a.free(); err != nil {
		return err
	}
	if err := s.holds(b, patience); err != nil {
		return err
	}
	if err := s.busy(first, "alone"); err != nil {
		return err
	}
	if err := b.free(); err != nil {
		return err
	}
	if a, err = s.takes(first); err != nil {
		return err
	}
	return a.free()
}

// die kills a holder, with a client of each version behind it.
func (s *scene) die(ctx context.Context, v version, first, second *process) error {
	p, err := begin(ctx, v)
	if err != nil {
		return err
	}
	if _, err := s.takes(p); err != nil {
		return err
	}
	b, err := s.lock(second, "alone")
	if err != nil {
		return err
	}
	c, err := s.lock(first, "alone")
	if err != nil {
		return err
	}
	p.kill()
	limit := time.NewTimer(s.store.gone())
	defer limit.Stop()
	select {
	case a := <-b.answers:
		b.answers <- a
	case a := <-c.answers: // some stores have no order
		c.answers <- a
		b, c = c, b
	case <-limit.C:
		return fmt.Errorf("nobody holds %v after the holder was killed", s.store.gone())
	}
	if err := s.holds(b, time.Second); err != nil {
		return err
	}
	if err := c.waits(time.Second); err != nil {
		return err
	}
	if err := b.free(); err != nil {
		return err
	}
	if err := s.holds(c, patience); err != nil {
		return err
	}
	return c.free()
}

// crowd lets clients of both versions wait and hold at the same time, each several times.
func (s *scene) crowd(first, second *process) error {
	const clients, rounds = 6, 5
	var inside atomic.Int32
	errs := make([]error, clients)
	var work sync.WaitGroup
	for i := range clients {
		p := []*process{first, second}[i%2]
		work.Go(func() {
			for range rounds {
				c, err := s.takes(p)
				if err != nil {
					errs[i] = err
					return
				}
				if n := inside.Add(1); n != 1 {
					errs[i] = fmt.Errorf("%d hold at once", n)
				}
				inside.Add(-1)
				if err := c.free(); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// share lets both versions hold together, while exclusive clients wait for both.
func (s *scene) share(first, second *process, kind, alone string) error {
	var holders []*client
	for _, p := range []*process{first, second} {
		c, err := s.lock(p, kind)
		if err != nil {
			return err
		}
		if _, err := c.holds(patience); err != nil {
			return err
		}
		holders = append(holders, c)
	}
	for _, p := range []*process{first, second} {
		if err := s.busy(p, alone); err != nil {
			return fmt.Errorf("beside %s: %w", kind, err)
		}
	}
	c, err := s.lock(first, alone)
	if err != nil {
		return err
	}
	for _, holder := range holders {
		if err := c.waits(300 * time.Millisecond); err != nil {
			return err
		}
		if err := holder.free(); err != nil {
			return err
		}
	}
	if _, err := c.holds(patience); err != nil {
		return err
	}
	if err := s.busy(second, kind); err != nil {
		return fmt.Errorf("beside %s: %w", alone, err)
	}
	return c.free()
}

// many is the number of clients that wait before the earlier version returns. Redis stores more than 8 claims in another
// form.
const many = 12

// back lets many clients of this version hold and wait, and then starts the earlier version again. The store may refuse it
// with an error while it cannot read their claims. It gets the lock when they are gone, unless this version has changed its
// tables.
func (s *scene) back(before, now *process) error {
	var clients []*client
	for range 1 + many {
		c, err := s.lock(now, "alone")
		if err != nil {
			return err
		}
		if len(clients) == 0 {
			if err := s.holds(c, patience); err != nil {
				return err
			}
		}
		clients = append(clients, c)
	}
	if err := s.crowded(now, 1+many); err != nil {
		return err
	}
	a, err := s.tries(before, "alone")
	if err != nil {
		return err
	}
	switch {
	case a.verb == "held":
		return fmt.Errorf("an earlier version holds too, token %s", a.text)
	case a.verb == "error" && s.before.reads:
		return fmt.Errorf("an earlier version, which can read what this one makes, says error %s", a.text)
	}
	late, err := s.lock(before, "alone")
	if err != nil {
		return err
	}
	early, ok := late.hear(time.Second)
	if ok && (early.verb != "error" || s.before.reads) {
		return fmt.Errorf("an earlier version says %s %s, and clients of this one are in the queue", early.verb, early.text)
	}
	if !s.store.line && !ok {
		clients = append(clients, late) // it may hold before the others
	}
	if err := s.drain(clients); err != nil {
		return err
	}
	return s.returns(before, now, late, ok || !s.store.line)
}

// changes reports whether this version changes the earlier version's tables.
func (s *scene) changes() bool { return slices.Contains(s.before.changed, s.store.name) }

// returns checks that the earlier version gets the lock after the clients of this one. Its client that came while they were
// there may have failed, or be done.
func (s *scene) returns(before, now *process, late *client, done bool) error {
	var a answer
	for tries := range 2 {
		if done || tries == 1 {
			var err error
			if late, err = s.lock(before, "alone"); err != nil {
				return err
			}
		}
		var ok bool
		if a, ok = late.hear(patience); !ok || a.verb == "held" {
			break
		}
	}
	if s.changes() {
		if a.verb != "error" {
			return fmt.Errorf("an earlier version says %s %s, and cannot know what this one made", a.verb, a.text)
		}
		return nil
	}
	if a.verb != "held" {
		return fmt.Errorf("an earlier version says %s %s; want held", a.verb, a.text)
	}
	if err := s.busy(now, "alone"); err != nil {
		return err
	}
	return late.free()
}

// crowded waits until a name has this many claims, if the store shows waiters.
func (s *scene) crowded(p *process, n int) error {
	for since := time.Now(); s.store.line; {
		c, err := p.ask("show", "-", s.store.lease(), s.store.url(s.space), "name-"+s.space)
		if err != nil {
			return err
		}
		a, _ := c.hear(patience)
		if a == (answer{"shown", strconv.Itoa(n)}) {
			return nil
		}
		if a.verb != "shown" || time.Since(since) > patience {
			return fmt.Errorf("%s shows %s %s; want %d claims", p.who, a.verb, a.text, n)
		}
	}
	return nil
}

// drain lets each client unlock when it holds, in the order of the store.
func (s *scene) drain(clients []*client) error {
	errs := make([]error, len(clients))
	var work sync.WaitGroup
	for i, c := range clients {
		work.Go(func() {
			if i > 0 {
				_, errs[i] = c.holds(patience)
			}
			if errs[i] == nil {
				errs[i] = c.free()
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

var only = flag.String("only", "", "play the scenes on one store, such as redis")

// Clients of each earlier revision and of this tree exclude each other on every store, whichever come first.
func TestOldAndNewOnOneServer(t *testing.T) {
	root := top(t)
	played := slices.DeleteFunc(stores(), func(st *store) bool { return *only != "" && *only != st.name })
	var starts, work sync.WaitGroup
	defer starts.Wait() // a failed build ends the test
	for _, st := range played {
		starts.Go(func() { st.url = st.start(t) })
	}
	before, now := build(t, root)
	starts.Wait()
	for _, st := range played {
		if st.url != nil { // it has started
			st.play(t, before, now, &work)
		}
	}
	work.Wait()
}

// busy limits the concurrent scenes with many clients. The other scenes mostly wait.
var busy = make(chan struct{}, 4)

// play plays all scenes on one store, at the same time.
func (s *store) play(t *testing.T, before []version, now version, work *sync.WaitGroup) {
	n, err := begin(t.Context(), now)
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
		return
	}
	scenes := 0
	for _, v := range before {
		if slices.Contains(v.lacks, s.name) {
			continue
		}
		b, err := begin(t.Context(), v)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			return
		}
		s.meetings(t.Context(), v, now, b, n, func(what string, do func(sc *scene) error) {
			scenes++
			space := fmt.Sprint("s", scenes)
			work.Go(func() {
				start := time.Now()
				if err := s.insist(t, v.revision, space, do); err != nil {
					t.Errorf("%s: %s: %s: %v", s.name, v.name, what, err)
				}
				t.Logf("%s: %s: %s: %v", s.name, v.name, what, time.Since(start).Round(100*time.Millisecond))
			})
		})
	}
}

// insist plays a scene, and repeats a void one that failed, at most twice.
func (s *store) insist(t *testing.T, before revision, space string, do func(sc *scene) error) error {
	for try := 1; ; try++ {
		sc := &scene{store: s, before: before, space: fmt.Sprintf("%st%d", space, try)}
		err := do(sc)
		switch {
		case err == nil || try == 3:
			return err
		case silent(err):
			t.Logf("%s: %v: void, since the server did not answer in time", s.name, err)
		case sc.void():
			t.Logf("%s: %v: void, since a client could not renew in time", s.name, err)
		default:
			return err
		}
	}
}

// silent reports whether a client could not open its store because the server gave no answer for seconds, on a busy machine.
// The error comes from another process, as text; ZooKeeper's client of 93f5926 had a text of its own.
func silent(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no answer in time") || strings.Contains(text, "stile: open: ") && strings.Contains(text, "i/o timeout")
}

// meetings stages the scenes of an earlier version and this one, of which b and n are processes.
func (s *store) meetings(ctx context.Context, before, now version, b, n *process, stage func(what string, do func(sc *scene) error)) {
	gated := func(do func(sc *scene) error) func(sc *scene) error {
		return func(sc *scene) error {
			busy <- struct{}{}
			defer func() { <-busy }()
			return do(sc)
		}
	}
	stage("a roll-back", gated(func(sc *scene) error { return sc.back(b, n) }))
	if slices.Contains(before.changed, s.name) {
		stage("an upgrade", func(sc *scene) error { return sc.upgrade(b, n) })
		return
	}
	for _, order := range []struct {
		version       version
		first, second *process
	}{{before, b, n}, {now, n, b}} {
		first, second := order.first, order.second
		what := fmt.Sprintf("%s, then %s", first.who, second.who)
		stage(what, func(sc *scene) error { return sc.meet(first, second) })
		stage(what+", killed", func(sc *scene) error { return sc.die(ctx, order.version, first, second) })
		if s.readers {
			stage(what+", readers", gated(func(sc *scene) error { return sc.share(first, second, "read", "alone") }))
		}
		if s.permits {
			stage(what+", permits", gated(func(sc *scene) error { return sc.share(first, second, "one", "both") }))
		}
	}
	stage("a crowd", gated(func(sc *scene) error { return sc.crowd(b, n) }))
}

// upgrade lets an earlier version hold and wait, in tables that this version would change. This version fails until the
// claims are gone, and the earlier one afterwards.
func (s *scene) upgrade(before, now *process) error {
	a, err := s.takes(before)
	if err != nil {
		return err
	}
	waits, err := s.lock(before, "alone")
	if err != nil {
		return err
	}
	for _, kind := range []string{"alone", "read"} {
		if got, err := s.tries(now, kind); err != nil || got.verb != "error" {
			return fmt.Errorf("%s tries: %s %s, %w; want an error", now.who, got.verb, got.text, err)
		}
	}
	if err := waits.waits(s.store.lease() * 5 / 4); err != nil {
		return err
	}
	for _, c := range []*client{a, waits} {
		if c == waits {
			if err := s.holds(c, patience); err != nil {
				return err
			}
		}
		if err := c.free(); err != nil {
			return err
		}
	}
	b, err := s.takes(now)
	if err != nil {
		return err
	}
	if got, err := s.tries(before, "alone"); err != nil || got.verb != "error" {
		return fmt.Errorf("%s tries: %s %s, %w; want an error", before.who, got.verb, got.text, err)
	}
	return b.free()
}
