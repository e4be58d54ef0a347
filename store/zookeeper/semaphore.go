package zookeeper

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// passWithin is how long a try waits while the claims ahead of it under locks take free permits.
const passWithin = time.Second

// A semaphore is the recipe of Curator's InterProcessSemaphoreV2, over the keeper's single locks. Its fields are guarded by the
// keeper's mu: a claim and its parts change together.
type semaphore struct {
	zk     *ensemble
	line   *keeper
	mu     *sync.Mutex        // the keeper's
	parted map[string]*parted // by claim id
}

// newSemaphore returns the recipe over a keeper, which is to have no other claims.
func newSemaphore(zk *ensemble, line *keeper) *semaphore {
	sem := &semaphore{zk: zk, line: line, mu: &line.mu, parted: map[string]*parted{}}
	line.forgets = sem.forgetWhole
	line.layoutOf = func(dir string) layout {
		if strings.HasSuffix(dir, locksDir) {
			return locksLayout
		}
		return leasesLayout
	}
	return sem
}

// remembered returns how many claims have parts.
func (sem *semaphore) remembered() int {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return len(sem.parted)
}

// await waits for the watches of the part that a claim waits with.
func (sem *semaphore) await(ctx context.Context, id string) error {
	return sem.line.await(ctx, sem.waitsBy(id))
}

// overlook has both parents watched.
func (sem *semaphore) overlook(ctx context.Context, dir string, b *signal) ([]*wire.Call, error) {
	s, err := sem.zk.live()
	if err != nil {
		return nil, err
	}
	watches, err := sem.line.folder(s, dir+locksDir).overlook(ctx, b)
	if err != nil {
		return watches, err
	}
	more, err := sem.line.folder(s, dir+leasesDir).overlook(ctx, b)
	return append(watches, more...), err
}

// alert has the claims told in the place of their parts.
func (sem *semaphore) alert(endangered func(ids ...string)) {
	sem.line.alertTo(func(ids ...string) { endangered(wholes(ids)...) })
}

// enter takes five round trips for a free permit: make the entrance, read the queue, make the permit, check that the
// entrance still exists, and remove it.
func (sem *semaphore) enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
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
func (sem *semaphore) reclaimPermits(ctx context.Context, c *driver.Claim, p *parted) error {
	if !reclaims(c) {
		return nil
	}
	for range attempts {
		s, err := sem.zk.live()
		if err != nil {
			return err
		}
		if err = sem.line.folder(s, p.dir+leasesDir).reclaim(ctx, c); !errors.Is(err, driver.ErrSession) {
			return err
		}
	}
	return driver.Unreachable(driver.ErrSession)
}

// advance moves a claim as far as possible.
func (sem *semaphore) advance(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	sem.mu.Lock()
	phase, entrance := p.phase, p.entrance(c)
	sem.mu.Unlock()
	switch {
	case phase >= partsLeaving:
		return driver.Place{}, driver.ErrGone
	case phase == partsHolding:
		return sem.take(ctx, c, p)
	}
	e, err := sem.line.enter(ctx, p.dir+locksDir, entrance, entrance.Ticket)
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
func (sem *semaphore) failed(c *driver.Claim, p *parted, err error, entered bool) error {
	switch {
	case errors.Is(err, driver.ErrGone):
		sem.abandon(p)
		return err
	case !entered:
		if driver.NotApplied(err) {
			sem.unlist(p)
		}
		return err
	case c.Ticket == 0 && driver.OutcomeOf(err) == driver.OutcomeRefused: // so nothing was done
		sem.abandon(p)
		return err
	}
	return driver.Afterwards(err)
}

// admit judges a claim whose entrance exists by the claims ahead of it, and reports whether it may stay.
func (sem *semaphore) admit(ctx context.Context, c *driver.Claim, p *parted, e *driver.Place) (bool, driver.Place, error) {
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
func (sem *semaphore) turnAway(ctx context.Context, p *parted, l line, own int) (bool, driver.Place, error) {
	if err := sem.withdrawParts(ctx, p); err != nil {
		return false, driver.Place{}, err
	}
	place, err := sem.placeIn(ctx, p.dir, l, own)
	return false, place, err
}

// pass waits a while for the claims ahead of a try, if they take free permits and leave one.
func (sem *semaphore) pass(ctx context.Context, c *driver.Claim, p *parted, e *driver.Place) error {
	sem.mu.Lock()
	entrance := p.entrance(c)
	sem.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, passWithin)
	defer cancel()
	for !e.Holds {
		err := sem.line.await(within, entrance.ID)
		if err == nil {
			*e, err = sem.line.enter(within, p.dir+locksDir, entrance, entrance.Ticket)
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
func (sem *semaphore) take(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
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
func (sem *semaphore) takeNodes(ctx context.Context, c *driver.Claim, p *parted) (bool, error) {
	holds := true
	for i := range p.size {
		sem.mu.Lock()
		if i == len(p.leases) {
			p.leases = append(p.leases, 0)
		}
		permit, ticket := p.permit(c, i), p.ticket
		sem.mu.Unlock()
		place, err := sem.line.enter(ctx, p.dir+leasesDir, permit, ticket)
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
func (sem *semaphore) tryFailed(ctx context.Context, p *parted) (driver.Place, error) {
	l, err := sem.lineOf(ctx, p.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	_, place, err := sem.turnAway(ctx, p, l, l.find(p.id))
	return place, err
}

// settleIn makes a claim hold that has all its permits, if its entrance still exists, and removes the entrance. It returns
// how many claims have earlier permits.
func (sem *semaphore) settleIn(ctx context.Context, c *driver.Claim, p *parted) (int, error) {
	sem.mu.Lock()
	entrance, permit := sem.line.get(p.entrance(c).ID), sem.line.get(p.permit(c, 0).ID)
	held := p.phase == partsHolding
	sem.mu.Unlock()
	if permit == nil || !held && (entrance == nil || entrance.session != permit.session) {
		return 0, sem.failed(c, p, driver.ErrGone, true)
	}
	leases := wire.List(p.dir+leasesDir, nil)
	calls := []*wire.Call{leases}
	if !held {
		calls = append(calls, wire.Exists(sem.line.pathOf(entrance), nil))
	}
	if err := sem.zk.do(ctx, permit.session, calls...); err != nil {
		return 0, sem.failed(c, p, err, true)
	}
	if !held {
		if errors.Is(calls[1].Err, wire.NoNode) {
			return 0, sem.failed(c, p, driver.ErrGone, true)
		}
		if sem.reach(p, partsHolding) {
			return 0, driver.ErrGone
		}
		_ = sem.line.withdraw(ctx, entrance) // the janitor goes on
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	for _, lc := range sem.here(p.parts(c)) {
		sem.line.prolong(lc, c.TTL)
	}
	l, _ := newLine(nil, leases.Children)
	return max(0, l.find(p.id)), nil
}

// queued returns the place of a claim that waits.
func (sem *semaphore) queued(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
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
