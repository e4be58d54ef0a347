package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// errAnew says that a claim is not in the store, and that its client does not know that it ever was.
var errAnew = errors.New("the claim enters as if for the first time")

// again returns the place of a claim that has entered before.
func (d *Driver) again(ctx context.Context, c *driver.Claim, lc *localClaim) (driver.Place, error) {
	d.mu.Lock()
	err := d.verdict(lc)
	follows := err == nil && lc.follows()
	d.mu.Unlock()
	var p driver.Place
	switch {
	case follows:
		if p, err = d.notePlace(c, lc, 0, true, false); err == nil {
			return p, nil
		}
	case err == nil:
		if p, err = d.find(ctx, c, lc); !errors.Is(err, driver.ErrGone) {
			return p, err
		}
	}
	return driver.Place{}, d.clear(ctx, c, lc, err)
}

// find returns the place of a claim if its node was made.
func (d *Driver) find(ctx context.Context, c *driver.Claim, lc *localClaim) (driver.Place, error) {
	stands, err := d.settle(ctx, lc)
	if err != nil {
		return driver.Place{}, err
	}
	if !stands {
		d.drop(lc)
		return driver.Place{}, driver.ErrGone
	}
	p, err := d.stands(ctx, c, lc, false)
	if errors.Is(err, errUnproven) {
		p, err = d.stands(ctx, c, lc, true)
	}
	return p, err
}

// clear returns why a claim is gone or, with errAnew, that it may enter as a new one; then nothing is left of it. If its
// lease ran out a moment ago, while the driver looked for its node, clear removes the node first: the claim that enters has
// the same id, and takes the entry in the table by which the janitor would find the node.
func (d *Driver) clear(ctx context.Context, c *driver.Claim, lc *localClaim, gone error) error {
	d.mu.Lock()
	if errors.Is(gone, driver.ErrSession) {
		lc.become(claimOver, driver.ErrSession)
	}
	if lc.lease.state == claimOver {
		d.forget(lc)
	}
	known, left := c.Ticket != 0 || lc.lease.state == claimKept, lc.lease.mustGo()
	d.mu.Unlock()
	if known {
		return gone
	}
	if left {
		if _, err := d.remove(ctx, lc); err != nil {
			return err
		}
		d.drop(lc)
	}
	return errAnew
}

// stands returns the place of a claim whose node most likely exists. If proven is false, and the server does not show the
// node, the error is errUnproven.
func (d *Driver) stands(ctx context.Context, c *driver.Claim, lc *localClaim, proven bool) (driver.Place, error) {
	list := wire.List(lc.dir, nil)
	calls := []*wire.Call{list}
	d.mu.Lock()
	inspect := (*wire.Call)(nil)
	if lc.unseen() {
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

// present is inspected for a claim that asks for its place. It forgets a claim that is certainly gone, but not one whose
// lease ran out meanwhile: the node of that claim is still there.
func (d *Driver) present(lc *localClaim, inspect *wire.Call, proven bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.inspected(lc, inspect, proven)
	if lc.lease.state == claimOver {
		d.forget(lc)
	}
	return err
}
