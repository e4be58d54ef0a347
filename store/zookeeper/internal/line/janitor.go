package line

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

const (
	// Never is a time that does not come.
	Never = time.Duration(1<<63 - 1)

	// Most critical sections end before a watch on their node would pay.
	watchAfter = 50 * time.Millisecond

	// Most waits behind several claims end before it would pay to ask who holds.
	watchWaiter = 250 * time.Millisecond

	// The pause before another try after a failure, and the time limit of a try.
	tendAgain  = 200 * time.Millisecond
	tendWithin = 5 * time.Second
)

// A janitor does the work that no call does: it ends leases, removes nodes, watches them, and looks for strays. The keeper's
// mu guards its fields.
type janitor struct {
	zk   *ensemble.Ensemble
	line *Keeper
	kick chan struct{} // holds one element; wakes the janitor

	told      func(ids ...string) // gets the ids of claims in danger; may be nil
	alerts    map[string]bool     // ids to report
	next      time.Duration       // when the janitor runs by itself
	compareAt time.Duration       // when it looks for strays next
	blind     bool                // the servers cannot list the nodes of a session
}

// scheduleLocked schedules the janitor no later than at.
func (j *janitor) scheduleLocked(at time.Duration) {
	if at < j.next {
		j.next = at
		j.wake()
	}
}

func (j *janitor) wake() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// AlertTo sets the function that gets the ids of local claims in danger.
func (k *Keeper) AlertTo(endangered func(ids ...string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.janitor.told = endangered
}

// Blinded notes that the servers cannot list the nodes of a session.
func (k *Keeper) Blinded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.janitor.blind = true
}

// IsBlind reports whether the servers cannot list the nodes of a session.
func (k *Keeper) IsBlind() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.janitor.blind
}

// alertLocked has tend report a claim in danger.
func (j *janitor) alertLocked(lc *LocalClaim) {
	if lc.lease.stands() || errors.Is(lc.lease.gone, driver.ErrSession) {
		j.alerts[lc.claim.ID] = true
		j.wake()
	}
}

// hurt is the session's callback for a lost connection and for its end.
func (j *janitor) hurt(s *wire.Session) {
	over := s.Err() != nil
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	if !over && !j.blind {
		j.compareAt = wire.Now()
		j.scheduleLocked(0)
	}
	for _, lc := range j.line.localClaims {
		if lc.Session != s {
			continue
		}
		if over {
			lc.becomeLocked(claimOver, driver.ErrSession)
		}
		j.alertLocked(lc)
	}
}

// tend is the janitor's goroutine. Until the driver is closed, it ends leases, removes nodes that must go, watches the nodes
// of claims, and reports claims in danger.
func (j *janitor) tend() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		j.line.mu.Lock()
		ids, told := slices.Collect(maps.Keys(j.alerts)), j.told
		clear(j.alerts)
		j.attendLocked()
		if j.next != Never {
			timer.Reset(max(0, j.next-wire.Now()))
		}
		j.line.mu.Unlock()
		if len(ids) > 0 && told != nil {
			told(ids...)
		}
		select {
		case <-j.zk.Ctx.Done():
			return
		case <-j.kick:
		case <-timer.C:
		}
	}
}

// attendLocked does the work that is due, or starts it.
func (j *janitor) attendLocked() {
	now := wire.Now()
	j.next = Never
	watch := map[*wire.Session][]*LocalClaim{}
	for _, lc := range j.line.localClaims {
		j.ageLocked(lc, now)
		unwatched := lc.lease.stands() && !lc.listener.own.Stands() && lc.node.name != ""
		switch {
		case lc.asks.tended:
		case lc.lease.mustGo() && now >= lc.asks.tryAt:
			lc.asks.tended = true
			j.zk.Life.Go(func() { j.sweep(lc) })
		case lc.lease.mustGo():
			j.next = min(j.next, lc.asks.tryAt)
		case unwatched && now >= lc.listener.ownAt:
			lc.asks.tended = true
			watch[lc.Session] = append(watch[lc.Session], lc)
		case unwatched:
			j.next = min(j.next, lc.listener.ownAt, lc.lease.ends)
		default:
			j.next = min(j.next, max(lc.lease.ends, now+time.Millisecond))
		}
	}
	for s, list := range watch {
		j.zk.Life.Go(func() { j.watchOwn(s, list) })
	}
	j.compareWhenDueLocked(now)
}

// ageLocked moves a claim whose lease or session is over.
func (j *janitor) ageLocked(lc *LocalClaim, now time.Duration) {
	switch {
	case j.zk.Ctx.Err() != nil:
	case lc.lease.state == claimKept && now >= lc.lease.ends:
		lc.becomeLocked(claimSpent, driver.ErrGone)
	case j.line.verdictLocked(lc) != nil && lc.lease.state == claimOver && now >= lc.lease.ends:
		j.line.forgetLocked(lc) // no call has asked for the verdict
	}
	if lc.Session.Err() != nil {
		lc.becomeLocked(claimOver, driver.ErrSession)
	}
}

// sweep removes the node of a claim that must go. After a final refusal it forgets the claim and does not ask again, since
// only an operator can give the right back. The node is a stray then: the janitor tries once in compareEvery to remove it,
// as long as it has claims. The caller that released the claim got the error, and waiters see the node.
func (j *janitor) sweep(lc *LocalClaim) {
	ctx, cancel := context.WithTimeout(j.zk.Ctx, tendWithin)
	defer cancel()
	_, err := j.line.remove(ctx, lc)
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	lc.asks.tended = false
	if err == nil || errors.Is(err, driver.ErrSession) || ensemble.Final(err) {
		j.line.forgetLocked(lc)
		return
	}
	lc.asks.tryAt = wire.Now() + tendAgain
	j.scheduleLocked(lc.asks.tryAt)
}

// watchOwn sets watches on the claims' own nodes.
func (j *janitor) watchOwn(s *wire.Session, list []*LocalClaim) {
	ctx, cancel := context.WithTimeout(j.zk.Ctx, tendWithin)
	defer cancel()
	calls := make([]*wire.Call, len(list))
	j.line.mu.Lock()
	for i, lc := range list {
		calls[i] = j.inspectLocked(lc)
	}
	j.line.mu.Unlock()
	err := j.zk.Do(ctx, s, calls...)
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	for i, lc := range list {
		lc.asks.tended = false
		lc.listener.ownAt = wire.Now() + tendAgain
		if err == nil && (j.inspectedLocked(lc, calls[i], false) != nil || lc.listener.demand.untold()) { // a renewal finds out
			j.alerts[lc.claim.ID] = true
			j.wake()
		}
		if lc.lease.state == claimWaiting && lc.listener.head == nil {
			lc.listener.raise() // so that the waiter looks again, and shows who holds
		}
	}
	j.scheduleLocked(wire.Now() + tendAgain)
}

// inspectLocked returns a call that reads a claim's node and watches it from then on.
func (j *janitor) inspectLocked(lc *LocalClaim) *wire.Call {
	w := wire.NewWatch(func() {
		j.line.mu.Lock()
		defer j.line.mu.Unlock()
		if !lc.lease.stands() {
			return
		}
		lc.listener.raise()
		lc.listener.ownAt = 0
		j.scheduleLocked(0)
		j.alertLocked(lc)
	})
	return wire.Get(lc.pathLocked(), w)
}

// inspectedLocked takes the answer to inspectLocked, and returns why the claim is over, or nil. If proven is false, the
// server may be behind: then a missing node is [errUnproven].
func (j *janitor) inspectedLocked(lc *LocalClaim, c *wire.Call, proven bool) error {
	switch {
	case !lc.lease.stands():
		c.Unwatch()
		return lc.lease.gone
	case c.Target() != lc.pathLocked(): // another node has replaced it meanwhile
		c.Unwatch()
		return nil
	case c.Err != nil && !errors.Is(c.Err, wire.NoNode):
		c.Unwatch()
		return nil // a missing permission shows nothing about the claim
	case c.Err != nil || c.Stat.Czxid != lc.node.czxid || c.Stat.Owner != lc.Session.ID():
		c.Unwatch()
		if !proven {
			return errUnproven
		}
		lc.becomeLocked(claimOver, driver.ErrGone)
		return lc.lease.gone
	}
	held := znode.ReadData(c.Data)
	if held.Kept > 0 {
		c.Unwatch()
		j.keepLocked(lc, held.Kept)
		return lc.lease.gone
	}
	lc.listener.takeOwn(c, &held, lc.node.version)
	lc.node.version = c.Stat.Version
	return nil
}

// keepLocked notes that a claim has left and its node stays for a while.
func (j *janitor) keepLocked(lc *LocalClaim, length time.Duration) {
	if lc.becomeLocked(claimKept, driver.ErrGone) {
		lc.lease.ends = wire.Now() + length
		j.scheduleLocked(lc.lease.ends)
	}
}
