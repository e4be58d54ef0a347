//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// A resource is what the locks guard: by name, the token of the client that works on it, and the newest token.
type resource struct {
	mu     sync.Mutex // guards the fields below
	inside map[string]int64
	newest map[string]int64
	double int // clients that came while another one worked, or with a token that is not newer
	late   int // writes with an older token
}

func (r *resource) come(name string, token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside[name] != 0 || token <= r.newest[name] {
		r.double++
	}
	r.inside[name], r.newest[name] = token, max(token, r.newest[name])
}

func (r *resource) write(name string, token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.newest[name] {
		r.late++
	}
}

func (r *resource) leave(name string, token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside[name] == token {
		r.inside[name] = 0
	}
}

// A team is clients that hold or wait, and what happens to them.
type team struct {
	url  string
	ttl  time.Duration
	work sync.WaitGroup
	of   resource

	mu        sync.Mutex // guards the fields below
	clients   []*waiter
	errs      []error
	lost      int // leases
	displaced int // waiters that lost their place
	unsure    int // releases without an answer
}

func (c *team) observe(e stile.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case stile.EventLost:
		c.lost++
	case stile.EventDisplaced:
		c.displaced++
	}
}

// join opens a client that takes the lock of a name, and works on the resource until release is closed, or the lock is lost. It
// sends on the channel that it returns when it has the lock.
func (c *team) join(ctx context.Context, name string, release <-chan struct{}) (*waiter, <-chan time.Time, error) {
	w, err := open(c.url, &stile.Options{LockOptions: stile.LockOptions{TTL: c.ttl}}, c.observe)
	if err != nil {
		return nil, nil, err
	}
	holds := make(chan time.Time, 1)
	c.mu.Lock()
	c.clients = append(c.clients, w)
	c.mu.Unlock()
	c.work.Go(func() {
		err := c.take(ctx, w.Mutex(name), release, holds)
		c.mu.Lock()
		defer c.mu.Unlock()
		if errors.Is(err, stile.ErrUnknown) {
			c.unsure++ // the lease runs out
		} else if err != nil {
			c.errs = append(c.errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	return w, holds, nil
}

func (c *team) take(ctx context.Context, l *stile.Lock, release <-chan struct{}, holds chan<- time.Time) error {
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	holds <- time.Now()
	c.of.come(l.Name(), lease.Token())
	for working := true; working; {
		select {
		case <-release:
			working = false
		case <-lease.Context().Done():
			working = false
		case <-time.After(20 * time.Millisecond):
			c.of.write(l.Name(), lease.Token())
		}
	}
	c.of.leave(l.Name(), lease.Token())
	return lease.Unlock()
}

// close ends all clients. The team's work must have ended.
func (c *team) close() (err error) {
	for _, w := range c.clients {
		err = errors.Join(err, w.Close())
	}
	return err
}

// An outcome is what came of a fault.
type outcome struct {
	atOnce, later                         time.Duration // until all waiters held
	lost, displaced, double, late, unsure int
}

// failover kills a replica, and in another run freezes one, while clients hold and wait.
func failover(r *run) error {
	pairs, ttl := 50, lease
	if r.short {
		pairs, ttl = 8, 10*time.Second
	}
	t := r.page.table("A replica fails", fmt.Sprintf("%d clients hold a lock each, in Redis, through the first of two replicas, and %d wait for these locks; the ttl is %v. Half of the "+
		"holders release when the replica fails, the others after half again as long as the ttl. A frozen replica goes on at the end, while the waiters "+
		"hold. A double hold is a client that comes to the resource while another one works on it, or with a token that is not newer.", pairs, pairs, ttl),
		"the replica", "leases lost", "places lost", "double holds", "releases without an answer", "all waiters held, release at once", "all waiters held, release later")
	for _, f := range []struct {
		name string
		do   func(*servertest.Server)
	}{{"is killed", (*servertest.Server).Kill}, {"is frozen", (*servertest.Server).Pause}} {
		o, err := r.fail(pairs, ttl, f.do, f.name == "is frozen")
		if err != nil {
			return fmt.Errorf("a replica %s: %w", f.name, err)
		}
		t.row(f.name, fmt.Sprint(o.lost), fmt.Sprint(o.displaced), fmt.Sprint(o.double), fmt.Sprint(o.unsure), seconds(o.atOnce), seconds(o.later))
		r.say("failover: a replica %s: %+v", f.name, *o)
		r.page.target("leases lost when a replica "+f.name, float64(o.lost), atMost, 0)
		r.page.target("double holds when a replica "+f.name, float64(o.double), atMost, 0)
		r.page.target("releases without an answer when a replica "+f.name, float64(o.unsure), atMost, 0)
		if o.lost+o.displaced+o.double+o.late > 0 {
			return fmt.Errorf("a replica %s: %d leases and %d places were lost; there were %d double holds, and %d late writes", f.name, o.lost, o.displaced, o.double,
				o.late)
		}
	}
	return nil
}

// fail does a fault to the first of two replicas. resumes says that it goes on at the end.
func (r *run) fail(pairs int, ttl time.Duration, fault func(*servertest.Server), resumes bool) (o *outcome, err error) {
	first, second := r.overRedis(), r.overRedis()
	defer first.Kill()
	defer second.Kill()
	c := &team{url: "stile://" + first.Addr + "," + second.Addr, ttl: ttl, of: resource{inside: map[string]int64{}, newest: map[string]int64{}}}
	ctx, cancel := context.WithTimeout(context.Background(), 4*ttl+2*patience)
	defer func() {
		cancel()
		c.work.Wait()
		err = errors.Join(append(c.errs, err, c.close())...)
	}()
	halves := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	end := make(chan struct{})
	var held [2][]<-chan time.Time // of the waiters for the locks of each half
	for i := range pairs {
		name := fmt.Sprintf("served/failover/%d/%d", first.Pid(), i)
		_, holds, err := c.join(ctx, name, halves[i%2])
		if err == nil {
			_, err = latest(ctx, holds)
		}
		if err != nil {
			return nil, err
		}
		w, holds, err := c.join(ctx, name, end)
		if err != nil {
			return nil, err
		}
		select {
		case <-w.waits:
		case <-ctx.Done():
			return nil, fmt.Errorf("a client for %s does not wait: %w", name, ctx.Err())
		}
		held[i%2] = append(held[i%2], holds)
	}
	o = &outcome{}
	fault(first)
	begun := time.Now()
	for half, took := range []*time.Duration{&o.atOnce, &o.later} {
		if half == 1 {
			time.Sleep(time.Until(begun.Add(ttl + ttl/2)))
		}
		released := time.Now()
		close(halves[half])
		last, err := latest(ctx, held[half]...)
		if err != nil {
			return nil, err
		}
		*took = last.Sub(released)
	}
	if resumes {
		first.Resume()
		time.Sleep(ttl) // what it sends now must not harm those that hold
	}
	close(end)
	c.work.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	o.lost, o.displaced, o.double, o.late, o.unsure = c.lost, c.displaced, c.of.double, c.of.late, c.unsure
	return o, nil
}

// latest waits until each of some clients holds, and returns when the last did.
func latest(ctx context.Context, holds ...<-chan time.Time) (last time.Time, err error) {
	for i, one := range holds {
		select {
		case at := <-one:
			if at.After(last) {
				last = at
			}
		case <-ctx.Done():
			return last, fmt.Errorf("only %d of %d clients hold: %w", i, len(holds), ctx.Err())
		}
	}
	return last, nil
}
