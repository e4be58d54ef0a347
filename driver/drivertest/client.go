package drivertest

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

var clientCases = []Case{
	{"Traits", "Traits tells what the store can promise.", 0, traits},
	{"Close", "Close ends every call and frees what the driver took; closing twice is harmless.", 0, closed},
	{"CloseKeepsClaims",
		"Claims stay in the store when a driver is closed, unless they are pinned to it: then they end.", 0,
		closeKeepsClaims},
	{"CloseEndsAwait", "Close ends every call.", ordered, closeEndsAwait},
	{"Forgets", "A claim may be left to another client without a word to the driver: what it remembers of a claim ends some time after the lease.",
		0, forgets},
	{"Context", "All methods end when their context ends.", 0, contextEnds},
}

func traits(r *run) {
	t := r.traits
	if t.Store == "" {
		r.Errorf("the store has no name")
	}
	if t.MinTTL <= 0 || t.MaxTTL < t.MinTTL || t.MaxTTL > driver.MaxTTL {
		r.Errorf("leases last from %v to %v; want a range within %v", t.MinTTL, t.MaxTTL, driver.MaxTTL)
	}
	if t.Granularity < 0 || t.Granularity >= t.MinTTL {
		r.Errorf("a lease may end %v early; want less than the shortest lease, %v", t.Granularity, t.MinTTL)
	}
	if !slices.Contains([]string{"process", "host", "server", "session"}, t.Clock) {
		r.Errorf("expiry is judged by %q", t.Clock)
	}
	if !slices.Contains([]string{"push", "poll"}, t.Wake) {
		r.Errorf("waiters are woken by %q", t.Wake)
	}
	if t.Fencing < driver.NoFencing || t.Fencing > driver.DurableFencing {
		r.Errorf("the fencing grade is %d", int(t.Fencing))
	}
}

// calls returns every method of a driver that can fail, as a function of a context.
func (r *run) calls(d driver.Driver, c *driver.Claim) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"enter": func(ctx context.Context) error { _, err := d.Enter(ctx, c); return err },
		"await": func(ctx context.Context) error { _, err := d.Await(ctx, c); return err },
		"leave": func(ctx context.Context) error { return d.Leave(ctx, &driver.Release{Claim: c}) },
		"renew": func(ctx context.Context) error {
			answers := d.Renew(ctx, []*driver.Claim{c, c})
			if len(answers) != 2 {
				r.Fatalf("renew of 2 claims has %d answers", len(answers))
			}
			return errors.Join(answers[0].Err, answers[1].Err)
		},
	}
	if l, ok := d.(driver.Lister); ok {
		all["list"] = func(ctx context.Context) error { _, err := l.List(ctx, &driver.Query{Name: c.Name}); return err }
	}
	if w, ok := d.(driver.Watcher); ok {
		all["watch"] = func(ctx context.Context) error { return w.Watch(ctx, c.Name, func() {}) }
	}
	if i, ok := d.(driver.Identifier); ok && r.identifies() {
		all["identity"] = func(ctx context.Context) error { _, err := i.Identity(ctx); return err }
	}
	if b, ok := d.(driver.Breaker); ok {
		all["break"] = func(ctx context.Context) error {
			_, err := b.Break(ctx, &driver.BreakRequest{Name: c.Name, Ticket: 1})
			return err
		}
	}
	return all
}

func closed(r *run) {
	d := r.store.Open(r)
	c := r.claim()
	r.holds(d, c)
	if err := d.Close(); err != nil {
		r.Errorf("close = %v; want nil", err)
	}
	if err := d.Close(); err != nil {
		r.Errorf("the second close = %v; want nil", err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 5*r.store.Slack) // a driver that did not close may go on with a call
	defer cancel()
	for verb, call := range r.calls(d, c) {
		if err := call(ctx); !errors.Is(err, driver.ErrClosed) {
			r.Errorf("%s of a closed driver = %v; want ErrClosed", verb, err)
		}
	}
}

func closeKeepsClaims(r *run) {
	d := r.store.Open(r)
	c := r.claim()
	r.holds(d, c)
	if err := d.Close(); err != nil {
		r.Errorf("close = %v; want nil", err)
	}
	if r.traits.OwnClient {
		r.until(r.store.Slack, "the lock is free", r.free)
		return
	}
	r.waits(r.b, r.claim())
	r.leave(r.a, c)
}

func closeEndsAwait(r *run) {
	d := r.store.Open(r)
	r.holds(r.a, r.claim())
	c := r.claim()
	c.Ticket = r.waits(d, c).Ticket
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := d.Await(r.ctx, c); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range 10 {
		poll(r.ctx)
	}
	if err := d.Close(); err != nil {
		r.Errorf("close = %v; want nil", err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, driver.ErrClosed) {
			r.Errorf("await = %v; want ErrClosed", err)
		}
	case <-awake.For(r.store.Slack):
		r.Errorf("await goes on %v after close", r.store.Slack)
	}
}

// contextEnds does not require an error: a call may return before it checks its context.
func contextEnds(r *run) {
	r.holds(r.a, r.claim())
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	for verb, call := range r.calls(r.b, r.claim()) {
		over := awake.For(r.store.Slack)
		err := call(ctx)
		if awake.Over(over) {
			r.Errorf("%s with an ended context took more than %v", verb, r.store.Slack)
		}
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, driver.ErrGone) {
			r.Errorf("%s with an ended context = %v; want the context's error", verb, err)
		}
	}
}
