package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/zookeeper/internal/wire"
)

// errAnew says that a claim is not in the store, and that its client does not know that it ever was.
var errAnew = errors.New("the claim enters as if for the first time")

// again finds a claim where it stands.
func (d *Driver) again(ctx context.Context, c *driver.Claim, lc *localClaim) (driver.Place, error) {
	d.mu.Lock()
	gone, clear, left := d.verdict(lc), lc.mustGo(), lc.state == claimKept
	if lc.state == claimOver {
		d.forget(lc)
	}
	d.mu.Unlock()
	switch {
	case gone != nil && (c.Ticket != 0 || left):
		return driver.Place{}, gone
	case clear:
		if _, err := d.remove(ctx, lc); err != nil {
			return driver.Place{}, err
		}
		d.drop(lc)
		return driver.Place{}, errAnew
	case gone != nil:
		return driver.Place{}, errAnew
	}
	stands, err := d.settle(ctx, lc)
	if err != nil {
		return driver.Place{}, err
	}
	if !stands {
		d.drop(lc)
		return driver.Place{}, errAnew
	}
	p, err := d.stands(ctx, c, lc, false)
	if errors.Is(err, errUnproven) {
		p, err = d.stands(ctx, c, lc, true)
	}
	d.mu.Lock()
	left = lc.state == claimKept
	d.mu.Unlock()
	if errors.Is(err, driver.ErrGone) && c.Ticket == 0 && !left {
		return driver.Place{}, errAnew
	}
	return p, err
}

// stands tells where a claim stands whose node is there, most likely. If that is not to be proven, and the server does not
// show the node, the error is errUnproven.
func (d *Driver) stands(ctx context.Context, c *driver.Claim, lc *localClaim, proven bool) (driver.Place, error) {
	list := wire.List(lc.dir, nil)
	calls := []*wire.Call{list}
	d.mu.Lock()
	inspect := (*wire.Call)(nil)
	if !lc.own.Stands() {
		inspect = d.inspect(lc)
		calls = append(calls, inspect)
	}
	d.mu.Unlock()
	if proven {
		calls = d.proven(calls...)
	}
	if err := d.do(ctx, lc.session, calls...); err != nil {
		return driver.Place{}, err
	}
	if inspect != nil {
		if err := d.present(lc, inspect, proven); err != nil {
			return driver.Place{}, err
		}
	}
	return d.judge(ctx, c, lc, list, false, proven)
}

// present is inspected for a claim that asks where it stands: one that is gone is forgotten.
func (d *Driver) present(lc *localClaim, inspect *wire.Call, proven bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.inspected(lc, inspect, proven)
	if errors.Is(err, driver.ErrGone) && lc.state != claimKept {
		d.forget(lc)
	}
	return err
}
