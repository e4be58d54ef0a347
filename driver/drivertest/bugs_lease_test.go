package drivertest

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// leaseBugs are about how claims leave, are kept, and run out.
var leaseBugs = []bug{
	{"LeaveFrees", "the lock-delay counts after a release",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			return d.Leave(ctx, &driver.Release{Claim: l.Claim, Keep: l.Claim.Delay})
		}}},
	{"LeaveDuringRenew", "a renewal that comes too late puts the claim back",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := make([]driver.Renewal, len(cs))
			for i, c := range cs {
				again := *c
				again.Ticket = 0
				p, err := d.Enter(ctx, &again)
				answers[i] = driver.Renewal{TTL: p.TTL, Err: err}
			}
			return answers
		}}},
	{"LeaveDuringRenew", "a claim that is being renewed cannot leave", func() *buggy {
		var renewing atomic.Int64
		return &buggy{
			renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				renewing.Add(1)
				defer renewing.Add(-1)
				for range 20 {
					runtime.Gosched()
				}
				return d.Renew(ctx, cs)
			},
			leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				if renewing.Load() > 0 {
					return driver.ErrGone
				}
				return d.Leave(ctx, l)
			},
		}
	}()},
	{"LeaveTwice", "leaving twice is fine",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			_ = d.Leave(ctx, l)
			return nil
		}}},
	{"LeaveOfAnother", "leave goes by the ticket",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			_, err := d.Break(ctx, &driver.BreakRequest{Name: l.Claim.Name, Ticket: l.Claim.Ticket})
			return err
		}}},
	{"LeaveWaiter", "a waiter cannot leave",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			if p, err := d.Enter(ctx, l.Claim); err == nil && p.Holds {
				return d.Leave(ctx, l)
			}
			return nil
		}}},
	{"KeepStays", "keep is not done",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			return d.Leave(ctx, &driver.Release{Claim: l.Claim})
		}}},
	{"KeepIsFinal", "a kept claim is alive",
		&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			return d.Renew(ctx, []*driver.Claim{l.Claim})[0].Err
		}}},
	{"Expiry", "leases do not end", entering(func(c *driver.Claim) { c.TTL = time.Hour })},
	{"Expiry", "leases end early", entering(func(c *driver.Claim) { c.TTL /= 2 })},
	{"ExpiryIsFinal", "a late renewal puts the claim back",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			c := *cs[0]
			c.Ticket = 0
			p, err := d.Enter(ctx, &c)
			return []driver.Renewal{{TTL: p.TTL, Err: err}}
		}}},
	{"RenewExtends", "renew only looks",
		&buggy{renew: func(_ context.Context, _ *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			return []driver.Renewal{{TTL: cs[0].TTL}}
		}}},
	{"RenewBatch", "the answers are in another order",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := d.Renew(ctx, cs)
			slices.Reverse(answers)
			return answers
		}}},
	{"RenewBatch", "the first failure ends the batch",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := d.Renew(ctx, cs)
			for i := 1; i < len(answers); i++ {
				if answers[i-1].Err != nil {
					answers[i] = answers[i-1]
				}
			}
			return answers
		}}},
	{"Delay", "the lock-delay does not count", entering(func(c *driver.Claim) { c.Delay = 0 })},
	{"DelayNotTold", "all are thought to be told", entering(func(c *driver.Claim) { c.Wait += c.Delay })},
}

// renewing returns a driver that changes the answers to renewals.
func renewing(change func(*driver.Renewal)) *buggy {
	return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
		answers := d.Renew(ctx, cs)
		for i := range answers {
			change(&answers[i])
		}
		return answers
	}}
}
