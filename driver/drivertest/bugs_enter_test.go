package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// enterBugs are about how claims enter, and what they hold.
func enterBugs() []bug {
	var serial atomic.Int64
	return []bug{
		{"EnterAgain", "a repeated enter is a new claim",
			entering(func(c *driver.Claim) { c.ID += fmt.Sprint(serial.Add(1)) })},
		{"EnterAgainCountsOnce", "a repeated enter is a new claim",
			entering(func(c *driver.Claim) { c.ID += fmt.Sprint(serial.Add(1)) })},
		{"EnterAgainElsewhere", "another client's claim is a new one", func() *buggy {
			var entered sync.Map
			return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				claim := *c
				if by, _ := entered.LoadOrStore(c.ID, d); by != d {
					claim.ID += "again"
				}
				return d.Enter(ctx, &claim)
			}}
		}()},
		{"EnterAtTail", "the lease is longer than asked for", entering(func(c *driver.Claim) { c.TTL *= 2 })},
		{"EnterAtTail", "the lease of a waiter is that of a holder", entering(func(c *driver.Claim) { c.Wait = c.TTL })},
		{"EnterAtTail", "nobody is said to be ahead", placed(func(p *driver.Place) { p.Ahead = 0 })},
		{"EnterAtTail", "the blocker is another claim", placed(func(p *driver.Place) { p.Blocker.Ticket++ })},
		{"RetryOfTheNext", "all ask when the first lease ends", placed(func(p *driver.Place) { p.Retry = min(p.Retry, sooner) })},
		{"RetryOfTheNext", "one asks when the last lease has ended", placed(func(p *driver.Place) { p.Retry = max(p.Retry, 2*sooner) })},
		{"RetryOfPermits", "all ask when the first lease ends", placed(func(p *driver.Place) { p.Retry = min(p.Retry, sooner) })},
		{"RetryOfPermits", "one asks when the last lease has ended", placed(func(p *driver.Place) { p.Retry = max(p.Retry, 2*sooner) })},
		{"RetryOfReaders", "all ask when the first lease ends", placed(func(p *driver.Place) { p.Retry = min(p.Retry, sooner) })},
		{"RetryOfReaders", "one asks when the last lease has ended", placed(func(p *driver.Place) { p.Retry = max(p.Retry, 2*sooner) })},
		{"RetryAfterDeadNext", "a dead waiter stays for an hour", entering(func(c *driver.Claim) { c.Wait = time.Hour })},
		{"EnterKeepsWaiting", "entering again does not renew a waiter",
			&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				if c.Ticket != 0 {
					c.Wait = 0
				}
				return d.Enter(ctx, c)
			}}},
		{"TryKeepsNothing", "a try waits", entering(func(c *driver.Claim) { c.Try = false })},
		{"TryHolds", "a try never enters", placed(func(p *driver.Place) { *p = driver.Place{} })},
		{"TicketGone", "a claim that is gone enters anew", entering(func(c *driver.Claim) { c.Ticket = 0 })},
		{"TicketsRise", "tickets repeat", placed(func(p *driver.Place) { p.Ticket = 1 })},
		{"TicketsRise", "tickets are too large", placed(func(p *driver.Place) { p.Ticket += 1 << 53 })},
		{"Capacity", "the capacity is not compared", entering(func(c *driver.Claim) { c.Capacity = 5 })},
		{"Capacity", "the conflict is a plain error",
			&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				p, err := d.Enter(ctx, c)
				if err != nil {
					err = errors.New("conflict")
				}
				return p, err
			}}},
		{"CapacityForgotten", "the capacity stays",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				_, _ = d.Enter(ctx, &driver.Claim{Name: l.Claim.Name, ID: "stays", Weight: 1, Capacity: l.Claim.Capacity,
					TTL: time.Minute, Wait: time.Minute})
				return d.Leave(ctx, l)
			}}},
		{"Reclaim", "reclaim is not done", entering(func(c *driver.Claim) { c.Reclaim = false })},
		{"ReclaimKept", "reclaim removes what is kept",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				if l.Keep == 0 {
					return d.Leave(ctx, l)
				}
				kept := *l.Claim
				kept.TTL = l.Keep // a lease like any other
				return d.Renew(ctx, []*driver.Claim{&kept})[0].Err
			}}},
		{"ReclaimOwn", "reclaim removes the run's own", entering(func(c *driver.Claim) { c.Client = c.ID })},
		{"ReclaimOthers", "reclaim removes everyone", entering(func(c *driver.Claim) { c.Owner, c.Reclaim = "all", true })},
		{"Exclusive", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
		{"Exclusive", "writers are readers", entering(func(c *driver.Claim) { c.Weight = 1 })},
		{"Order", "waiters are not queued", entering(func(c *driver.Claim) { c.Try = true })},
		{"Readers", "readers exclude each other", entering(func(c *driver.Claim) { c.Weight = c.Capacity })},
		{"Permits", "one permit is given for many", entering(func(c *driver.Claim) { c.Weight = 1 })},
		{"Permits", "permits are lacking, and given", &buggy{traits: func(t *driver.Traits) { t.Permits = false }}},
		{"Readers", "readers are lacking, and let in", &buggy{traits: func(t *driver.Traits) { t.Shared = false }}},
		{"StressExclusive", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
		{"StressShared", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
		{"StressPermits", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
	}
}

// entering returns a driver that enters a changed claim.
func entering(change func(*driver.Claim)) *buggy {
	return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		change(c)
		return d.Enter(ctx, c)
	}}
}

// placed returns a driver that returns a changed place.
func placed(change func(*driver.Place)) *buggy {
	return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		p, err := d.Enter(ctx, c)
		change(&p)
		return p, err
	}}
}
