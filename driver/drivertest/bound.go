package drivertest

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// A homed is one of two clients of a store where only the client that entered a claim can renew it. It calls the right
// client, so cases need not know.
type homed struct {
	driver.Driver
	home *sync.Map // by claim id: the client by which the claim entered
}

// A bound is a homed client of a store where any client can do everything except renew.
type bound struct {
	homed
	driver.Lister
	driver.Watcher
	driver.Breaker
}

// A pinned is a homed client of a store where only the claim's own client can see, renew and remove it.
type pinned struct{ homed }

// full is the interface of a driver whose claims are bound, with its optional parts.
type full interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
}

// bind wraps two clients of a store that binds or pins claims. A client of a store that binds claims must implement List,
// Watch and Break.
func bind(t *driver.Traits, a, b driver.Driver) (driver.Driver, driver.Driver) {
	home := new(sync.Map)
	switch {
	case t.OwnClient:
		return &pinned{homed{a, home}}, &pinned{homed{b, home}}
	case t.InSession:
		one, other := a.(full), b.(full)
		return &bound{homed{a, home}, one, one, one}, &bound{homed{b, home}, other, other, other}
	}
	return a, b
}

// Leave removes a claim by the client that entered it.
func (p *pinned) Leave(ctx context.Context, l *driver.Release) error {
	return p.of(l.Claim).Leave(ctx, l)
}

func (b *homed) of(c *driver.Claim) driver.Driver {
	if d, ok := b.home.Load(c.ID); ok {
		return d.(driver.Driver)
	}
	return b.Driver
}

// Enter enters by the client that entered the claim before.
func (b *homed) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d := b.of(c)
	p, err := d.Enter(ctx, c)
	if err == nil && p.Ticket != 0 {
		b.home.Store(c.ID, d)
	}
	return p, err
}

// Await awaits by the client that entered the claim.
func (b *homed) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	return b.of(c).Await(ctx, c)
}

// Renew renews each claim by the client that entered it.
func (b *homed) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
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
