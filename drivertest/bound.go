package drivertest

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// A bound is one of two clients whose claims only the client can renew by which they entered: it has the right one do
// it. What else is done with a claim is done by the client that was asked, so cases need not know.
type bound struct {
	full
	home *sync.Map // claim id: the client that it entered by
}

// full is what a driver whose claims are bound must be able to do, beside the rest.
type full interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
}

// bind makes two clients of a store that binds claims. They must be able to list, watch and break.
func bind(a, b driver.Driver) (driver.Driver, driver.Driver) {
	home := new(sync.Map)
	return &bound{a.(full), home}, &bound{b.(full), home}
}

func (b *bound) of(c *driver.Claim) driver.Driver {
	if d, ok := b.home.Load(c.ID); ok {
		return d.(driver.Driver)
	}
	return b.full
}

// Enter enters by the client that the claim entered by before.
func (b *bound) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d := b.of(c)
	p, err := d.Enter(ctx, c)
	if err == nil && p.Ticket != 0 {
		b.home.Store(c.ID, d)
	}
	return p, err
}

// Await awaits by the client that the claim entered by.
func (b *bound) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	return b.of(c).Await(ctx, c)
}

// Renew renews each claim by the client that it entered by.
func (b *bound) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	var (
		answers = make([]driver.Renewal, len(cs))
		shares  = map[driver.Driver][]int{}
	)
	for i, c := range cs {
		shares[b.of(c)] = append(shares[b.of(c)], i)
	}
	for d, share := range shares {
		var own []*driver.Claim
		for _, i := range share {
			own = append(own, cs[i])
		}
		for i, answer := range d.Renew(ctx, own) {
			answers[share[i]] = answer
		}
	}
	return answers
}
