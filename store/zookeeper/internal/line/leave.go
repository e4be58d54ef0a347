package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Leave removes the node of a claim of this driver or, with Keep, marks it as kept if the claim holds.
func (k *Keeper) Leave(ctx context.Context, l *driver.Release, lc *LocalClaim) error {
	k.mu.Lock()
	gone, again := k.verdictLocked(lc), lc.lease.state == claimLeaving
	if lc.lease.state == claimOver {
		k.forgetLocked(lc)
	}
	k.mu.Unlock()
	if gone != nil && !again {
		return gone
	}
	if l.Keep > 0 && !again {
		if kept, err := k.keepOwn(ctx, lc, l.Keep); err != nil || kept {
			return err
		}
	}
	k.mu.Lock()
	if !lc.becomeLocked(claimLeaving, driver.ErrGone) { // it is over, or another client released and keeps it
		defer k.mu.Unlock()
		return lc.lease.gone
	}
	lc.asks.tryAt = Never // otherwise the janitor might remove it, and this call would find it gone
	k.mu.Unlock()
	was, err := k.removeFirst(ctx, lc)
	return k.left(lc, was || again, err)
}

// left ends the release of a claim, and returns an error if its node was not there.
func (k *Keeper) left(lc *LocalClaim, was bool, err error) error {
	switch {
	case errors.Is(err, errKept):
		return driver.ErrGone
	case ensemble.Final(err):
		return err
	case err != nil:
		return driver.Unknown(err) // the janitor goes on with the removal
	}
	k.forget(lc)
	if !was {
		return driver.ErrGone
	}
	return nil
}

// removeFirst removes the node before the janitor does. If it fails, the janitor goes on, unless the refusal is final.
func (k *Keeper) removeFirst(ctx context.Context, lc *LocalClaim) (was bool, err error) {
	switch was, err = k.remove(ctx, lc); {
	case ensemble.Final(err):
		k.forget(lc)
	case err != nil:
		k.mu.Lock()
		defer k.mu.Unlock()
		lc.asks.tryAt = wire.Now()
		k.janitor.scheduleLocked(lc.asks.tryAt)
	}
	return was, err
}

// keepOwn marks a claim as left and kept, and reports whether it held.
func (k *Keeper) keepOwn(ctx context.Context, lc *LocalClaim, length time.Duration) (kept bool, err error) {
	m, err := k.pursue(ctx, lc, stays(length))
	if m.verb == endAbsent {
		k.forget(lc)
		return false, driver.ErrGone
	}
	return m.verb == endDone, err
}

// remove removes a claim's node, and reports whether this call deleted it. A node that another client keeps stays until its
// time is over; the error is then [errKept].
func (k *Keeper) remove(ctx context.Context, lc *LocalClaim) (bool, error) {
	m, err := k.pursue(ctx, lc, leaves)
	if m.verb == endRefused && ensemble.Final(err) {
		const says = "%w; the claim's node stands until the session ends, about %v after the client is gone at the latest"
		return false, fmt.Errorf(says, err, lc.Session.Timeout())
	}
	return m.verb == endDone, err
}

// LeaveNode removes the node whose name begins like this or, with keep, marks it as kept if its claim holds. The error is
// ErrGone if there is no such node, or if another client keeps it.
func (f *Folder) LeaveNode(ctx context.Context, begins string, keep time.Duration) error {
	t := &target{Folder: f, begins: begins}
	m, _, err := t.pursue(ctx, departs(keep))
	if m.verb == endAbsent || m.verb == endKept {
		return driver.ErrGone
	}
	return err
}
