package line

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
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
	stands, err := k.settle(ctx, lc)
	if err == nil && stands && l.Keep > 0 && !again {
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

// keepOwn is leaveKept for a claim of this driver.
func (k *Keeper) keepOwn(ctx context.Context, lc *LocalClaim, length time.Duration) (kept bool, err error) {
	k.mu.Lock()
	name := lc.node.name
	k.mu.Unlock()
	kept, err = lc.leaveKept(ctx, name, length)
	if err == nil && kept {
		k.mu.Lock()
		k.janitor.keepLocked(lc, length)
		k.mu.Unlock()
	}
	if errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
		if stands, unsure := k.settle(ctx, lc); unsure != nil || stands && k.nameOf(lc) != name {
			return false, unsure // the claim was being amended
		}
		k.forget(lc)
	}
	return kept, err
}

// leaveKept marks a claim that holds as left and kept, and reports whether the claim held.
func (f *Folder) leaveKept(ctx context.Context, name string, length time.Duration) (bool, error) {
	list, get := wire.List(f.dir, nil), wire.Get(f.dir+"/"+name, nil)
	if err := f.zk.Do(ctx, f.Session, f.zk.Proven(list, get)...); err != nil {
		return false, err
	}
	q, _ := f.layout.NewQueue(list.Children)
	switch i := znode.Find(q, name); {
	case errors.Is(get.Err, wire.NoNode) || get.Err == nil && list.Err == nil && i < 0:
		return false, driver.ErrGone
	case list.Err != nil || get.Err != nil:
		return false, f.zk.Refused(f.dir, errors.Join(list.Err, get.Err))
	case i >= q.Holding():
		return false, nil
	}
	held := znode.ReadData(get.Data)
	held.Stile, held.Kept = znode.DataVersion, length
	_, err := f.set(ctx, f.dir+"/"+name, held.Text(), -1)
	return err == nil, err
}

// LeaveNode removes the node whose name begins like this or, with keep, marks it as kept if its claim holds. The error is
// ErrGone if there is no such node, or if another client keeps it.
func (f *Folder) LeaveNode(ctx context.Context, begins string, keep time.Duration) error {
	end, _, err := f.pursue(ctx, keep, view{begins: begins})
	if err == nil && (end == endAbsent || end == endKept) {
		return driver.ErrGone
	}
	return err
}
