package drivertest

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A buggy driver is a memory driver, some of whose methods are replaced.
type buggy struct {
	*memory.Driver
	enter  func(context.Context, *memory.Driver, *driver.Claim) (driver.Place, error)
	await  func(context.Context, *memory.Driver, *driver.Claim) (driver.Place, error)
	renew  func(context.Context, *memory.Driver, []*driver.Claim) []driver.Renewal
	leave  func(context.Context, *memory.Driver, *driver.Release) error
	list   func(context.Context, *memory.Driver, *driver.Query) ([]driver.Listing, error)
	breaks func(context.Context, *memory.Driver, *driver.BreakRequest) (driver.ClaimInfo, error)
	watch  func(context.Context, *memory.Driver, string, func()) error
	alert  func(endangered func(ids ...string)) func(ids ...string)
	traits func(*driver.Traits)
	close  func(*memory.Driver) error
	adopt  func(context.Context, *memory.Driver, *driver.Claim) (driver.Place, error)
}

// Adopt is that of a driver that must know a claim before it awaits it. The memory driver needs no such thing.
func (b *buggy) Adopt(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.Ticket == 0 {
		return driver.Place{}, driver.Refused(errors.New("no ticket"))
	}
	if b.adopt != nil {
		return b.adopt(ctx, b.Driver, c)
	}
	found := *c
	found.TTL, found.Wait = 0, 0
	return b.Driver.Enter(ctx, &found)
}

func (b *buggy) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if b.enter == nil {
		return b.Driver.Enter(ctx, c)
	}
	claim := *c
	return b.enter(ctx, b.Driver, &claim)
}

func (b *buggy) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if b.await == nil {
		return b.Driver.Await(ctx, c)
	}
	return b.await(ctx, b.Driver, c)
}

func (b *buggy) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if b.renew == nil {
		return b.Driver.Renew(ctx, cs)
	}
	return b.renew(ctx, b.Driver, cs)
}

func (b *buggy) Leave(ctx context.Context, l *driver.Release) error {
	if b.leave == nil {
		return b.Driver.Leave(ctx, l)
	}
	return b.leave(ctx, b.Driver, l)
}

func (b *buggy) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if b.list == nil {
		return b.Driver.List(ctx, q)
	}
	return b.list(ctx, b.Driver, q)
}

func (b *buggy) Break(ctx context.Context, k *driver.BreakRequest) (driver.ClaimInfo, error) {
	if b.breaks == nil {
		return b.Driver.Break(ctx, k)
	}
	return b.breaks(ctx, b.Driver, k)
}

func (b *buggy) Watch(ctx context.Context, name string, changed func()) error {
	if b.watch == nil {
		return b.Driver.Watch(ctx, name, changed)
	}
	return b.watch(ctx, b.Driver, name, changed)
}

func (b *buggy) Alert(endangered func(ids ...string)) {
	if b.alert != nil {
		endangered = b.alert(endangered)
	}
	b.Driver.Alert(endangered)
}

func (b *buggy) Traits() driver.Traits {
	t := b.Driver.Traits()
	if b.traits != nil {
		b.traits(&t)
	}
	return t
}

func (b *buggy) Close() error {
	if b.close == nil {
		return b.Driver.Close()
	}
	return b.close(b.Driver)
}
