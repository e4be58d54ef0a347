package drivertest

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// amendBugs are about amendments.
var amendBugs = []bug{
	{"AmendDowngrade", "the weight stays", amending(func(a *driver.Amendment) { a.Weight = 0 })},
	{"AmendNobodyBetween", "a writer leaves, and enters as a reader", reentering()},
	{"AmendPermits", "the weight stays", amending(func(a *driver.Amendment) { a.Weight = 0 })},
	{"AmendStays", "a writer leaves, and enters as a reader", reentering()},
	{"AmendSince", "a record begins a new time", listingAnew(func(c driver.ClaimInfo) bool { return c.Record == "another" })},
	{"AmendSince", "a weight begins a new time", listingAnew(func(c driver.ClaimInfo) bool { return c.Weight == 1 })},
	{"AmendTwice", "what is so already is refused",
		amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
			list, _ := d.List(ctx, &driver.Query{Name: c.Name})
			if len(list) == 1 && list[0].Claims[0].Record == c.Amend.Record {
				return driver.Renewal{Err: driver.Refused(errors.New("it is so already"))}
			}
			return d.Renew(ctx, []*driver.Claim{c})[0]
		})},
	{"AmendHeavier", "what cannot be done is passed over", amending(func(a *driver.Amendment) { a.Weight = 0 })},
	{"AmendWaiter", "a claim that waits is renewed", amending(func(a *driver.Amendment) { *a = driver.Amendment{} })},
	{"AmendGone", "a claim is brought back", reentering()},
	{"AmendRecord", "the record stays", amending(func(a *driver.Amendment) { a.Record = "" })},
	{"AmendRecord", "amendments are lacking, and made", &buggy{traits: func(t *driver.Traits) { t.Amends = false }}},
	{"AmendAnotherRecord", "any record is replaced", replacing()},
	{"AmendLateRecord", "any record is replaced", replacing()},
	{"AmendResumed", "any record is replaced", replacing()},
	{"AmendResumed", "only who knows the record renews",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			if cs[0].Record == "" {
				return slices.Repeat([]driver.Renewal{{Err: driver.ErrGone}}, len(cs))
			}
			return d.Renew(ctx, cs)
		}}},
	{"AmendBatch", "one refusal is everybody's",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := d.Renew(ctx, cs)
			for _, a := range answers {
				if a.Err != nil {
					return slices.Repeat([]driver.Renewal{a}, len(cs))
				}
			}
			return answers
		}}},
	{"AmendLateForNext", "whoever holds is amended",
		amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
			a := d.Renew(ctx, []*driver.Claim{c})[0]
			if errors.Is(a.Err, driver.ErrGone) {
				_, _ = d.Break(ctx, &driver.BreakRequest{Name: c.Name})
			}
			return a
		})},
}

// amendingOne returns a driver that renews claims with an Amend by another function.
func amendingOne(renew func(context.Context, *memory.Driver, *driver.Claim) driver.Renewal) *buggy {
	return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
		answers := make([]driver.Renewal, len(cs))
		for i, c := range cs {
			if c.Amend == nil {
				answers[i] = d.Renew(ctx, []*driver.Claim{c})[0]
			} else {
				answers[i] = renew(ctx, d, c)
			}
		}
		return answers
	}}
}

// amending returns a driver that changes each amendment before it makes it.
func amending(change func(*driver.Amendment)) *buggy {
	return amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
		claim, amendment := *c, *c.Amend
		change(&amendment)
		claim.Amend = &amendment
		if amendment == (driver.Amendment{}) {
			claim.Amend = nil
		}
		return d.Renew(ctx, []*driver.Claim{&claim})[0]
	})
}

// reentering returns a driver that amends a claim by removing it and entering it again.
func reentering() *buggy {
	return amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
		_ = d.Leave(ctx, &driver.Release{Claim: c})
		poll(ctx) // the gap that the bug is about
		again := *c
		again.Ticket, again.Record = 0, c.Amend.Record
		if c.Amend.Weight != 0 {
			again.Weight = c.Amend.Weight
		}
		p, err := d.Enter(ctx, &again)
		return driver.Renewal{TTL: p.TTL, Err: err}
	})
}

// replacing returns a driver that replaces any record.
func replacing() *buggy {
	return amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
		a := d.Renew(ctx, []*driver.Claim{c})[0]
		if is, ok := errors.AsType[*driver.RecordError](a.Err); ok {
			again := *c
			again.Record = is.Have
			return d.Renew(ctx, []*driver.Claim{&again})[0]
		}
		return a
	})
}
