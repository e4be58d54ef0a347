// Package curator keeps Curator's InterProcessSemaphoreV2 in ZooKeeper, over the single locks of package line. A claim has
// a lock node under locks, and a node for each permit under leases. For the keeper of package line each of them is a claim.
// Type wholeClaim lists them, and has the drawing.
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
	mu     *sync.Mutex            // the keeper's
	wholes map[string]*wholeClaim // by claim id
}

// New returns the recipe over a keeper, which must have no other claims.
func New(zk *ensemble.Ensemble, line *line.Keeper) *Semaphore {
	sem := &Semaphore{zk: zk, line: line, mu: line.Mutex(), wholes: map[string]*wholeClaim{}}
	line.Forgets = sem.forgetWholeLocked
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
	return len(sem.wholes)
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

// Enter takes five round trips for a free permit: make the lock node, read the queue, make the permit, check that the
// lock node still exists, and remove it. Each further permit takes one more.
func (sem *Semaphore) Enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	w := sem.wholeClaimOf(c.ID)
	if w == nil && c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	if w != nil {
		place, err := sem.advance(ctx, c, w)
		if c.Ticket != 0 || !errors.Is(err, driver.ErrGone) || sem.wholeClaimOf(c.ID) != nil {
			return place, err
		}
	}
	w = newWholeClaim(dir, c)
	sem.mu.Lock()
	sem.wholes[c.ID] = w
	sem.mu.Unlock()
	return sem.advance(ctx, c, w)
}

// reclaimPermits removes the permits of earlier runs. The claim's lock node exists, and the lock nodes of earlier runs ahead
// of it were removed when it was made. So no earlier run gets a permit after this.
func (sem *Semaphore) reclaimPermits(ctx context.Context, c *driver.Claim, w *wholeClaim) error {
	if !line.Reclaims(c) {
		return nil
	}
	for range ensemble.Attempts {
		s, err := sem.zk.Live()
		if err != nil {
			return err
		}
		if err = sem.line.Folder(s, w.dir+znode.LeasesDir).Reclaim(ctx, c); !errors.Is(err, driver.ErrSession) {
			return err
		}
	}
	return driver.Unreachable(driver.ErrSession)
}

// advance moves a claim as far as possible.
func (sem *Semaphore) advance(ctx context.Context, c *driver.Claim, w *wholeClaim) (driver.Place, error) {
	sem.mu.Lock()
	phase, lockPart, first := w.phase, w.lockPartLocked(c), w.first
	sem.mu.Unlock()
	switch {
	case phase >= partsLeaving:
		return driver.Place{}, driver.ErrGone
	case phase == partsHolding:
		return sem.take(ctx, c, w)
	}
	e, err := sem.line.Enter(ctx, w.dir+znode.LocksDir, lockPart, first)
	if err != nil {
		return driver.Place{}, sem.failed(c, w, err, phase != partsAsking)
	}
	sem.mu.Lock()
	w.first.Ticket = e.Ticket
	if lc := sem.line.GetLocked(lockPart.ID); lc != nil { // else the claim is over
		w.first.Since = lc.FirstLocked().Since
	}
	sem.wholes[w.id] = w // it may have been forgotten before its lock node was asked for again
	sem.mu.Unlock()
	if phase == partsAsking {
		if err := sem.reclaimPermits(ctx, c, w); err != nil {
			return driver.Place{}, sem.failed(c, w, err, true)
		}
		in, place, err := sem.admit(ctx, c, w, &e)
		if err != nil || !in {
			return place, err
		}
	}
	if !e.Holds {
		return sem.queued(ctx, c, w)
	}
	if sem.reach(w, partsTaking) {
		return driver.Place{}, driver.ErrGone
	}
	return sem.take(ctx, c, w)
}

// failed turns the error of a part into the error of the whole claim.
func (sem *Semaphore) failed(c *driver.Claim, w *wholeClaim, err error, entered bool) error {
	switch {
	case errors.Is(err, driver.ErrGone):
		sem.abandon(w)
		return err
	case !entered:
		if driver.NotApplied(err) {
			sem.unlist(w)
		}
		return err
	case c.Ticket == 0 && driver.OutcomeOf(err) == driver.OutcomeRefused: // which promises that nothing is left
		sem.abandon(w)
		return err
	}
	return driver.Afterwards(err)
}

// admit judges a claim whose lock node exists by the claims ahead of it, and reports whether it may stay.
func (sem *Semaphore) admit(ctx context.Context, c *driver.Claim, w *wholeClaim, e *driver.Place) (bool, driver.Place, error) {
	l, err := sem.lineOf(ctx, w.dir)
	if err != nil {
		return false, driver.Place{}, driver.Afterwards(err)
	}
	if have := l.capacity(); have != c.Capacity && have != 0 {
		if err := sem.withdrawParts(ctx, w); err != nil {
			return false, driver.Place{}, err
		}
		return false, driver.Place{}, &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	if own := l.find(w.id); c.Try && own >= l.holding() {
		return sem.turnAway(ctx, w, l, own)
	}
	if c.Try && !e.Holds {
		if err := sem.pass(ctx, c, w, e); err != nil {
			return false, driver.Place{}, err
		}
		if !e.Holds {
			return sem.turnAway(ctx, w, l, l.find(w.id))
		}
	}
	return !sem.reach(w, partsQueued), driver.Place{}, nil
}

// turnAway withdraws a try, and returns its place behind the others.
func (sem *Semaphore) turnAway(ctx context.Context, w *wholeClaim, l bundles, own int) (bool, driver.Place, error) {
	if err := sem.withdrawParts(ctx, w); err != nil {
		return false, driver.Place{}, err
	}
	place, err := sem.placeIn(ctx, w.dir, l, own)
	return false, place, err
}

// pass waits a while for the claims ahead of a try, if they take free permits and leave one.
func (sem *Semaphore) pass(ctx context.Context, c *driver.Claim, w *wholeClaim, e *driver.Place) error {
	sem.mu.Lock()
	lockPart, first := w.lockPartLocked(c), w.first
	sem.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, passWithin)
	defer cancel()
	for !e.Holds {
		err := sem.line.Await(within, lockPart.ID)
		if err == nil {
			*e, err = sem.line.Enter(within, w.dir+znode.LocksDir, lockPart, first)
		}
		if within.Err() != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return sem.failed(c, w, err, true)
		}
	}
	return nil
}

// take asks for the permits of a claim whose lock node is first, or finds the permits of a claim that holds.
func (sem *Semaphore) take(ctx context.Context, c *driver.Claim, w *wholeClaim) (driver.Place, error) {
	holds, err := sem.takeNodes(ctx, c, w)
	switch {
	case err != nil:
		return driver.Place{}, err
	case !holds && c.Try && c.Ticket == 0:
		return sem.tryFailed(ctx, w)
	case !holds:
		return sem.queued(ctx, c, w)
	}
	ahead, err := sem.settleIn(ctx, c, w)
	if err != nil {
		return driver.Place{}, err
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return driver.Place{Ticket: w.first.Ticket, Holds: true, TTL: sem.trustedPartsLocked(c, w), Ahead: ahead}, nil
}

// takeNodes makes or finds the node of each permit, and reports whether there is room for all.
func (sem *Semaphore) takeNodes(ctx context.Context, c *driver.Claim, w *wholeClaim) (bool, error) {
	holds := true
	for i := range w.size {
		sem.mu.Lock()
		if i == len(w.leases) {
			w.leases = append(w.leases, 0)
		}
		permit, first := w.permitLocked(c, i), w.first
		sem.mu.Unlock()
		place, err := sem.line.Enter(ctx, w.dir+znode.LeasesDir, permit, first)
		if err != nil {
			return false, sem.failed(c, w, err, true)
		}
		sem.mu.Lock()
		w.leases[i] = place.Ticket
		left := w.phase >= partsLeaving
		sem.mu.Unlock()
		if left {
			sem.abandon(w) // it left meanwhile, without seeing this part
			return false, driver.ErrGone
		}
		holds = holds && place.Holds
	}
	return holds, nil
}

// tryFailed withdraws a try that found room in the queue but not under leases, where another client did not respect the
// queue.
func (sem *Semaphore) tryFailed(ctx context.Context, w *wholeClaim) (driver.Place, error) {
	l, err := sem.lineOf(ctx, w.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	_, place, err := sem.turnAway(ctx, w, l, l.find(w.id))
	return place, err
}

// settleIn makes a claim hold that has all its permits, if its lock node still exists, and removes the lock node. It returns
// the number of claims whose permits are ahead.
func (sem *Semaphore) settleIn(ctx context.Context, c *driver.Claim, w *wholeClaim) (int, error) {
	sem.mu.Lock()
	lockPart, permit := sem.line.GetLocked(w.lockPartLocked(c).ID), sem.line.GetLocked(w.permitLocked(c, 0).ID)
	held := w.phase == partsHolding
	sem.mu.Unlock()
	if permit == nil || !held && (lockPart == nil || lockPart.Session != permit.Session) {
		return 0, sem.failed(c, w, driver.ErrGone, true)
	}
	leases := wire.List(w.dir+znode.LeasesDir, nil)
	calls := []*wire.Call{leases}
	if !held {
		calls = append(calls, wire.Exists(sem.line.PathOf(lockPart), nil))
	}
	if err := sem.zk.Do(ctx, permit.Session, calls...); err != nil {
		return 0, sem.failed(c, w, err, true)
	}
	if !held {
		if errors.Is(calls[1].Err, wire.NoNode) {
			return 0, sem.failed(c, w, driver.ErrGone, true)
		}
		if sem.reach(w, partsHolding) {
			return 0, driver.ErrGone
		}
		_ = sem.line.Withdraw(ctx, lockPart) // the janitor goes on
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	for _, lc := range sem.hereLocked(w.partsLocked(c)) {
		sem.line.ProlongLocked(lc, c.TTL)
	}
	l, _ := newBundles(nil, leases.Children)
	return max(0, l.find(w.id)), nil
}

// queued returns the place of a claim that waits.
func (sem *Semaphore) queued(ctx context.Context, c *driver.Claim, w *wholeClaim) (driver.Place, error) {
	l, err := sem.lineOf(ctx, w.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	place, err := sem.placeIn(ctx, w.dir, l, l.find(w.id))
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	place.Ticket, place.TTL = w.first.Ticket, sem.trustedPartsLocked(c, w)
	return place, nil
}
