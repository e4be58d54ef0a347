// Package curator keeps Curator's InterProcessSemaphoreV2 in ZooKeeper, over the single locks of package line. A claim has
// an entrance under locks, and a node for each permit under leases. For the keeper of package line each of them is a claim.
// Type parted lists them, and has the drawing.
package curator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/line"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// passWithin is how long a try waits while the claims ahead of it under locks take free permits.
const passWithin = time.Second

// A Semaphore is the recipe of Curator's InterProcessSemaphoreV2. The keeper's mu guards its fields, since a claim and its
// parts change together.
type Semaphore struct {
	zk     *ensemble.Ensemble
	line   *line.Keeper
	mu     *sync.Mutex        // the keeper's
	parted map[string]*parted // by claim id
}

// New returns the recipe over a keeper, which must have no other claims.
func New(zk *ensemble.Ensemble, line *line.Keeper) *Semaphore {
	sem := &Semaphore{zk: zk, line: line, mu: line.Mutex(), parted: map[string]*parted{}}
	line.Forgets = sem.forgetWhole
	line.LayoutOf = func(dir string) znode.Layout {
		if strings.HasSuffix(dir, znode.LocksDir) {
			return znode.Locks
		}
		return znode.Leases
	}
	return sem
}

// Remembered returns how many claims have parts.
func (sem *Semaphore) Remembered() int {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return len(sem.parted)
}

// Await waits for the watches of the part by which a claim waits.
func (sem *Semaphore) Await(ctx context.Context, id string) error {
	return sem.line.Await(ctx, sem.waitsBy(id))
}

// Overlook watches both parents.
func (sem *Semaphore) Overlook(ctx context.Context, dir string, b *line.Signal) ([]*wire.Call, error) {
	s, err := sem.zk.Live()
	if err != nil {
		return nil, err
	}
	watches, err := sem.line.Folder(s, dir+znode.LocksDir).Overlook(ctx, b)
	if err != nil {
		return watches, err
	}
	more, err := sem.line.Folder(s, dir+znode.LeasesDir).Overlook(ctx, b)
	return append(watches, more...), err
}

// Alert sets the function that gets the ids of claims in danger: of whole claims, not of their parts.
func (sem *Semaphore) Alert(endangered func(ids ...string)) {
	sem.line.AlertTo(func(ids ...string) { endangered(wholes(ids)...) })
}

// Enter takes five round trips for a free permit: make the entrance, read the queue, make the permit, check that the
// entrance still exists, and remove it. Each further permit takes one more.
func (sem *Semaphore) Enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	p := sem.partedOf(c.ID)
	if p == nil && c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	if p != nil {
		place, err := sem.advance(ctx, c, p)
		if c.Ticket != 0 || !errors.Is(err, driver.ErrGone) || sem.partedOf(c.ID) != nil {
			return place, err
		}
	}
	p = newParted(dir, c)
	sem.mu.Lock()
	sem.parted[c.ID] = p
	sem.mu.Unlock()
	return sem.advance(ctx, c, p)
}

// reclaimPermits removes the permits of earlier runs. The claim's entrance exists, and the entrances of earlier runs ahead
// of it were removed when it was made. So no earlier run gets a permit after this.
func (sem *Semaphore) reclaimPermits(ctx context.Context, c *driver.Claim, p *parted) error {
	if !line.Reclaims(c) {
		return nil
	}
	for range ensemble.Attempts {
		s, err := sem.zk.Live()
		if err != nil {
			return err
		}
		if err = sem.line.Folder(s, p.dir+znode.LeasesDir).Reclaim(ctx, c); !errors.Is(err, driver.ErrSession) {
			return err
		}
	}
	return driver.Unreachable(driver.ErrSession)
}

// advance moves a claim as far as possible.
func (sem *Semaphore) advance(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	sem.mu.Lock()
	phase, entrance := p.phase, p.entrance(c)
	sem.mu.Unlock()
	switch {
	case phase >= partsLeaving:
		return driver.Place{}, driver.ErrGone
	case phase == partsHolding:
		return sem.take(ctx, c, p)
	}
	e, err := sem.line.Enter(ctx, p.dir+znode.LocksDir, entrance, entrance.Ticket)
	if err != nil {
		return driver.Place{}, sem.failed(c, p, err, phase != partsAsking)
	}
	sem.mu.Lock()
	p.ticket = e.Ticket
	sem.parted[p.id] = p // it may have been forgotten before its entrance was asked for again
	sem.mu.Unlock()
	if phase == partsAsking {
		if err := sem.reclaimPermits(ctx, c, p); err != nil {
			return driver.Place{}, sem.failed(c, p, err, true)
		}
		in, place, err := sem.admit(ctx, c, p, &e)
		if err != nil || !in {
			return place, err
		}
	}
	if !e.Holds {
		return sem.queued(ctx, c, p)
	}
	if sem.reach(p, partsTaking) {
		return driver.Place{}, driver.ErrGone
	}
	return sem.take(ctx, c, p)
}

// failed turns the error of a part into the error of the whole claim.
func (sem *Semaphore) failed(c *driver.Claim, p *parted, err error, entered bool) error {
	switch {
	case errors.Is(err, driver.ErrGone):
		sem.abandon(p)
		return err
	case !entered:
		if driver.NotApplied(err) {
			sem.unlist(p)
		}
		return err
	case c.Ticket == 0 && driver.OutcomeOf(err) == driver.OutcomeRefused: // which promises that nothing is left
		sem.abandon(p)
		return err
	}
	return driver.Afterwards(err)
}

// admit judges a claim whose entrance exists by the claims ahead of it, and reports whether it may stay.
func (sem *Semaphore) admit(ctx context.Context, c *driver.Claim, p *parted, e *driver.Place) (bool, driver.Place, error) {
	l, err := sem.lineOf(ctx, p.dir)
	if err != nil {
		return false, driver.Place{}, driver.Afterwards(err)
	}
	if have := l.capacity(); have != c.Capacity && have != 0 {
		if err := sem.withdrawParts(ctx, p); err != nil {
			return false, driver.Place{}, err
		}
		return false, driver.Place{}, &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	if own := l.find(p.id); c.Try && own >= l.holding() {
		return sem.turnAway(ctx, p, l, own)
	}
	if c.Try && !e.Holds {
		if err := sem.pass(ctx, c, p, e); err != nil {
			return false, driver.Place{}, err
		}
		if !e.Holds {
			return sem.turnAway(ctx, p, l, l.find(p.id))
		}
	}
	return !sem.reach(p, partsQueued), driver.Place{}, nil
}

// turnAway withdraws a try, and returns its place behind the others.
func (sem *Semaphore) turnAway(ctx context.Context, p *parted, l bundles, own int) (bool, driver.Place, error) {
	if err := sem.withdrawParts(ctx, p); err != nil {
		return false, driver.Place{}, err
	}
	place, err := sem.placeIn(ctx, p.dir, l, own)
	return false, place, err
}

// pass waits a while for the claims ahead of a try, if they take free permits and leave one.
func (sem *Semaphore) pass(ctx context.Context, c *driver.Claim, p *parted, e *driver.Place) error {
	sem.mu.Lock()
	entrance := p.entrance(c)
	sem.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, passWithin)
	defer cancel()
	for !e.Holds {
		err := sem.line.Await(within, entrance.ID)
		if err == nil {
			*e, err = sem.line.Enter(within, p.dir+znode.LocksDir, entrance, entrance.Ticket)
		}
		if within.Err() != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return sem.failed(c, p, err, true)
		}
	}
	return nil
}

// take asks for the permits of a claim whose entrance is first, or finds the permits of a claim that holds.
func (sem *Semaphore) take(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	holds, err := sem.takeNodes(ctx, c, p)
	switch {
	case err != nil:
		return driver.Place{}, err
	case !holds && c.Try && c.Ticket == 0:
		return sem.tryFailed(ctx, p)
	case !holds:
		return sem.queued(ctx, c, p)
	}
	ahead, err := sem.settleIn(ctx, c, p)
	if err != nil {
		return driver.Place{}, err
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return driver.Place{Ticket: p.ticket, Holds: true, TTL: sem.trustedParts(c, p), Ahead: ahead}, nil
}

// takeNodes makes or finds the node of each permit, and reports whether there is room for all.
func (sem *Semaphore) takeNodes(ctx context.Context, c *driver.Claim, p *parted) (bool, error) {
	holds := true
	for i := range p.size {
		sem.mu.Lock()
		if i == len(p.leases) {
			p.leases = append(p.leases, 0)
		}
		permit, ticket := p.permit(c, i), p.ticket
		sem.mu.Unlock()
		place, err := sem.line.Enter(ctx, p.dir+znode.LeasesDir, permit, ticket)
		if err != nil {
			return false, sem.failed(c, p, err, true)
		}
		sem.mu.Lock()
		p.leases[i] = place.Ticket
		left := p.phase >= partsLeaving
		sem.mu.Unlock()
		if left {
			sem.abandon(p) // it left meanwhile, without seeing this part
			return false, driver.ErrGone
		}
		holds = holds && place.Holds
	}
	return holds, nil
}

// tryFailed withdraws a try that found room in the queue but not under leases, where another client did not respect the
// queue.
func (sem *Semaphore) tryFailed(ctx context.Context, p *parted) (driver.Place, error) {
	l, err := sem.lineOf(ctx, p.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	_, place, err := sem.turnAway(ctx, p, l, l.find(p.id))
	return place, err
}

// settleIn makes a claim hold that has all its permits, if its entrance still exists, and removes the entrance. It returns
// the number of claims whose permits are ahead.
func (sem *Semaphore) settleIn(ctx context.Context, c *driver.Claim, p *parted) (int, error) {
	sem.mu.Lock()
	entrance, permit := sem.line.Get(p.entrance(c).ID), sem.line.Get(p.permit(c, 0).ID)
	held := p.phase == partsHolding
	sem.mu.Unlock()
	if permit == nil || !held && (entrance == nil || entrance.Session != permit.Session) {
		return 0, sem.failed(c, p, driver.ErrGone, true)
	}
	leases := wire.List(p.dir+znode.LeasesDir, nil)
	calls := []*wire.Call{leases}
	if !held {
		calls = append(calls, wire.Exists(sem.line.PathOf(entrance), nil))
	}
	if err := sem.zk.Do(ctx, permit.Session, calls...); err != nil {
		return 0, sem.failed(c, p, err, true)
	}
	if !held {
		if errors.Is(calls[1].Err, wire.NoNode) {
			return 0, sem.failed(c, p, driver.ErrGone, true)
		}
		if sem.reach(p, partsHolding) {
			return 0, driver.ErrGone
		}
		_ = sem.line.Withdraw(ctx, entrance) // the janitor goes on
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	for _, lc := range sem.here(p.parts(c)) {
		sem.line.Prolong(lc, c.TTL)
	}
	l, _ := newBundles(nil, leases.Children)
	return max(0, l.find(p.id)), nil
}

// queued returns the place of a claim that waits.
func (sem *Semaphore) queued(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	l, err := sem.lineOf(ctx, p.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	place, err := sem.placeIn(ctx, p.dir, l, l.find(p.id))
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	place.Ticket, place.TTL = p.ticket, sem.trustedParts(c, p)
	return place, nil
}
