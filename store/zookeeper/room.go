package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A claim that goes by the name's own count has room for its permits while those that stand under leases, and came before,
// leave it some. What it goes by is read once its entrance is first, and watched from then on, so that a waiting claim looks
// again as soon as the count is another. It is read once more after its last permit was made, by the request that also shows
// that its entrance stands: so a change that was answered before a claim's permits were made counts for this claim.
//
// Once a claim holds, the count is of no more interest: a lower one takes nothing from it.

// goBy has a permit judged by the capacity that its claim goes by. Permits of claims that go by the count have that too,
// whatever it was when they were made, and one that goes by the count takes those of a stated number for such, as Curator's.
// A mutex keeps out, and is kept out, by either.
func (q queue) goBy(own int, capacity int64) {
	counted := q[own].capacity == byCount
	for i := range q {
		if q[i].capacity == byCount || counted && q[i].capacity != driver.All {
			q[i].capacity = capacity
		}
	}
}

// readRoom has a claim know the count, unless it watches it already, or does not go by it.
func (d *Driver) readRoom(ctx context.Context, c *driver.Claim, p *parted) error {
	d.mu.Lock()
	entrance := d.localClaims[p.entrance(c).ID]
	known := p.counted == "" || p.phase >= partsHolding || p.watch.Stands()
	d.mu.Unlock()
	if known || entrance == nil {
		return nil
	}
	get := d.roomCall(p)
	if err := d.do(ctx, entrance.session, get); err != nil {
		get.Unwatch()
		return err
	}
	return d.noteRoom(p, get)
}

// roomless has a claim leave whose count is gone, or cannot be read any more, whether it entered just now or has waited: it
// could wait for ever, and those behind it.
func (d *Driver) roomless(ctx context.Context, c *driver.Claim, p *parted, err error) error {
	if driver.OutcomeOf(err) != driver.OutcomeRefused || errors.Is(err, driver.ErrGone) {
		return d.failed(c, p, err, true)
	}
	if failed := d.withdrawParts(ctx, p); failed != nil {
		return failed
	}
	return err
}

// roomCall reads the count that a claim goes by, and has it watched; nil for a claim that does not.
func (d *Driver) roomCall(p *parted) *wire.Call {
	if p.counted == "" {
		return nil
	}
	return wire.Get(p.counted, wire.NewWatch(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.rouse(p)
	}))
}

// noteRoom notes the count that a roomCall has read, or returns why there is none.
func (d *Driver) noteRoom(p *parted, get *wire.Call) error {
	if get == nil {
		return nil
	}
	n, err := d.countIn(get)
	d.mu.Lock()
	defer d.mu.Unlock()
	p.watch.Drop()
	if p.watch = get.Watch(); err != nil || p.phase >= partsHolding {
		p.watch.Drop()
		return err
	}
	p.room = n
	return nil
}

// rouse has a claim look again that waits for permits. The caller holds mu.
func (d *Driver) rouse(p *parted) {
	for i := range p.leases {
		if lc := d.localClaims[p.permit(&driver.Claim{}, i).ID]; lc != nil && lc.signal != nil {
			lc.signal.raise()
		}
	}
}

// rouseIfMissed has a claim look again if the count has changed while it began to wait, when there was nobody to be told.
func (d *Driver) rouseIfMissed(p *parted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.counted != "" && !p.watch.Stands() {
		d.rouse(p)
	}
}

// fitsIn reports whether all permits of a claim are among as many as a count allows, by the children of leases. A permit that
// is not there is none's to count: the lease of the claim tells.
func (p *parted) fitsIn(count int64, leases []string) bool {
	permits, _ := leasesLayout.newQueue(leases)
	for i := len(permits) - 1; i >= 0; i-- {
		if key, _, _, ok := readTag(permits[i].name, leaseWord); ok && key == guid(p.id) {
			return int64(i) < count
		}
	}
	return true
}
