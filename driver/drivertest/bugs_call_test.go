package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// callBugs are about calls that wait, end, or come late.
var callBugs = []bug{
	{"EndedBefore", "a cause is taken for the store's word",
		ending(func(ctx context.Context, _ bool) error { return context.Cause(ctx) })},
	{"EndedBefore", "the end of a context is a refusal",
		ending(func(ctx context.Context, _ bool) error { return driver.Refused(ctx.Err()) })},
	{"EndedBefore", "the cause is not told",
		ending(func(context.Context, bool) error { return driver.Unsent(errors.New("ended")) })},
	{"EndedDuring", "a cause is taken for the store's word", ending(func(ctx context.Context, sent bool) error {
		if sent {
			return context.Cause(ctx)
		}
		return driver.Ended(ctx, false)
	})},
	{"Unsent", "what was sent is said to be unsent",
		ending(func(ctx context.Context, _ bool) error { return driver.Ended(ctx, false) })},
	{"Unsent", "what is said to be unsent is sent later",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			if err := driver.Ended(ctx, false); err != nil {
				claim := *l.Claim
				time.AfterFunc(20*time.Millisecond,
					func() { _ = d.Leave(context.WithoutCancel(ctx), &driver.Release{Claim: &claim}) })
				return err
			}
			return d.Leave(ctx, l)
		}}},
	{"AtOnce", "whoever leaves is told that it was there",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			_ = d.Leave(ctx, l)
			return nil
		}}},
	{"AtOnce", "all hold that enter",
		&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			p, err := d.Enter(ctx, c)
			p.Holds = true
			return p, err
		}}},
	{"RenewAnew", "a renewal that took long takes out what it finds",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			began := time.Now()
			if ctx.Err() == nil && time.Since(began) > 50*time.Millisecond {
				for _, c := range cs {
					_ = d.Leave(ctx, &driver.Release{Claim: c})
				}
			}
			return d.Renew(ctx, cs)
		}}},
	{"AwaitLeave", "notifications are lost",
		&buggy{await: func(ctx context.Context, _ *memory.Driver, _ *driver.Claim) (driver.Place, error) {
			<-ctx.Done()
			return driver.Place{}, ctx.Err()
		}}},
	{"AwaitDoesNotRenew", "await renews",
		&buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			_, _ = d.Enter(ctx, c)
			return d.Await(ctx, c)
		}}},
	{"AwaitContext", "a place holds when the time is over",
		&buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			_, _ = d.Await(ctx, c)
			return driver.Place{Ticket: c.Ticket, Holds: true}, nil
		}}},
	{"Adopt", "the lease restarts",
		&buggy{adopt: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			return d.Enter(ctx, c)
		}}},
	{"Adopt", "a claim is adopted that holds, and nobody says so",
		&buggy{adopt: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			found := *c
			found.TTL, found.Wait = 0, 0
			p, err := d.Enter(ctx, &found)
			p.Holds = false
			return p, err
		}}},
	{"Close", "close does nothing", &buggy{close: func(*memory.Driver) error { return nil }}},
	{"CloseKeepsClaims", "claims that are pinned outlive their client",
		&buggy{traits: func(t *driver.Traits) { t.OwnClient = true }}},
	{"CloseEndsAwait", "close does nothing", &buggy{close: func(*memory.Driver) error { return nil }}},
	{"LateEnter", "an entry throws out who holds",
		&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			if c.Ticket == 0 && !c.Try {
				_, _ = d.Break(ctx, &driver.BreakRequest{Name: c.Name})
			}
			return d.Enter(ctx, c)
		}}},
	{"LateEnterLostLeave", "a claim that was gone once is not looked for again", forgetful()},
	{"LateLeave", "whoever holds leaves",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			_, err := d.Break(ctx, &driver.BreakRequest{Name: l.Claim.Name})
			return err
		}}},
	{"LateCleanup", "a claim that is found is taken out a moment later", func() *buggy {
		var entered sync.Map
		return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			p, err := d.Enter(ctx, c)
			if _, again := entered.LoadOrStore(c.ID, true); again && c.Ticket == 0 {
				time.AfterFunc(heldUp/10, func() { _ = d.Leave(context.WithoutCancel(ctx), &driver.Release{Claim: c}) })
			}
			return p, err
		}}
	}()},
	{"LateTry", "a try that is made again waits", func() *buggy {
		var entered sync.Map
		return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			patient := *c
			_, again := entered.LoadOrStore(c.ID, true)
			patient.Try = c.Try && !again
			return d.Enter(ctx, &patient)
		}}
	}()},
	{"LostEnter", "a claim that is entered again gets a second one", func() *buggy {
		var entered sync.Map
		return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			p, err := d.Enter(ctx, c)
			if _, again := entered.LoadOrStore(c.ID, true); again {
				second := *c
				second.ID, second.Ticket = "again", 0
				_, _ = d.Enter(ctx, &second)
			}
			return p, err
		}}
	}()},
	{"LostCapacity", "the capacity is not compared", entering(func(c *driver.Claim) { c.Capacity = 5 })},
	{"LostRenew", "a renewal that is repeated ends its claim", func() *buggy {
		var renewed sync.Map
		return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := d.Renew(ctx, cs)
			if _, again := renewed.LoadOrStore(cs[0].ID, true); again {
				_ = d.Leave(ctx, &driver.Release{Claim: cs[0]})
			}
			return answers
		}}
	}()},
	{"LostLeave", "whoever holds leaves",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			_, err := d.Break(ctx, &driver.BreakRequest{Name: l.Claim.Name})
			return err
		}}},
	{"LostConnection", "a renewal takes the lock again", &buggy{
		enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			if c.Try { // as if the holder's connection had ended
				_, _ = d.Break(ctx, &driver.BreakRequest{Name: c.Name})
			}
			return d.Enter(ctx, c)
		},
		renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			again := *cs[0]
			again.Ticket = 0
			_, _ = d.Enter(ctx, &again)
			return d.Renew(ctx, cs)
		}}},
	{"LateRenew", "a renewal brings its claim back",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := d.Renew(ctx, cs)
			if again := *cs[0]; errors.Is(answers[0].Err, driver.ErrGone) {
				_, _ = d.Break(ctx, &driver.BreakRequest{Name: again.Name})
				again.Ticket = 0
				_, _ = d.Enter(ctx, &again)
			}
			return answers
		}}},
	{"AwaitOfMany", "a client hears of the next change only", oneEar()},
	{"AwaitWhileOthersComeAndGo", "a client hears of the next change only", oneEar()},
}

// forgetful returns a driver that no longer asks its store about a claim that was gone.
func forgetful() *buggy {
	var gone sync.Map
	return &buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
		if _, ok := gone.Load(l.Claim.ID); ok {
			return driver.ErrGone
		}
		err := d.Leave(ctx, l)
		if errors.Is(err, driver.ErrGone) {
			gone.Store(l.Claim.ID, true)
		}
		return err
	}}
}

// oneEar returns a driver that informs only one of the client's claims of a change.
func oneEar() *buggy {
	var ear sync.Mutex
	return &buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		if !ear.TryLock() {
			<-ctx.Done()
			return driver.Place{}, driver.Ended(ctx, true)
		}
		defer ear.Unlock()
		return d.Await(ctx, c)
	}}
}

// ending returns a driver that gets its error for an ended context, before or after the request was sent, from a function.
// It makes all calls, and they last a moment longer than the call in the store.
func ending(tell func(ctx context.Context, sent bool) error) *buggy {
	end := func(ctx context.Context, call func(ctx context.Context) error) error {
		if ctx.Err() != nil {
			return tell(ctx, false)
		}
		err := call(context.WithoutCancel(ctx))
		poll(ctx)
		if err == nil && ctx.Err() != nil {
			return tell(ctx, true)
		}
		return err
	}
	return &buggy{
		enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (p driver.Place, err error) {
			err = end(ctx, func(ctx context.Context) error { p, err = d.Enter(ctx, c); return err })
			return p, err
		},
		renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) (answers []driver.Renewal) {
			err := end(ctx, func(ctx context.Context) error { answers = d.Renew(ctx, cs); return nil })
			if err != nil {
				answers = make([]driver.Renewal, len(cs))
				for i := range answers {
					answers[i].Err = err
				}
			}
			return answers
		},
		leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			return end(ctx, func(ctx context.Context) error { return d.Leave(ctx, l) })
		},
	}
}
