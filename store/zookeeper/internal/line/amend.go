package line

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// renewAmending renews claims, and amends the claims that ask for it.
func (k *Keeper) renewAmending(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	plain := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		claim := *c
		claim.Amend = nil
		plain[i] = &claim
	}
	answers := k.RenewAll(ctx, plain)
	for i, c := range cs {
		if c.Amend == nil || answers[i].Err != nil {
			continue
		}
		if err := k.amend(ctx, c); err != nil {
			answers[i] = driver.Renewal{Err: err}
		}
	}
	return answers
}

// amend changes a claim without moving it in the queue. The data of the node have the record. The name of the node has the
// weight, so for another weight, amend replaces the node by another one in one step. The new node has the old one's number,
// so that Curator's recipes find it in the same place of the queue, and names the claim's first node in its data. Clients that
// watch the old node look again.
//
// If amend made the new node first and removed the old one after that, as Curator's recipe does, the claim would stand
// behind all waiters, and a writer among them would hold beside it.
func (k *Keeper) amend(ctx context.Context, c *driver.Claim) error {
	for {
		lc := k.LocalClaimOf(c.ID)
		if lc == nil {
			return driver.ErrGone
		}
		stands, err := k.settle(ctx, lc)
		if err != nil {
			return driver.Unknown(err) // the lease was renewed
		}
		if !stands {
			return driver.ErrGone
		}
		again, err := k.amendNode(ctx, c, lc)
		if !again {
			return err
		}
	}
}

// amendNode amends a claim's present node. If another client changes the node meanwhile, again is true, and the caller
// starts over.
func (k *Keeper) amendNode(ctx context.Context, c *driver.Claim, lc *LocalClaim) (again bool, err error) {
	k.mu.Lock()
	path, weight, holds := lc.pathLocked(), lc.node.weight, lc.lease.state == claimHolding
	k.mu.Unlock()
	get := wire.Get(path, nil)
	if err := k.zk.Do(ctx, lc.Session, k.zk.Proven(get)...); err != nil {
		return false, driver.Unknown(err)
	}
	held := znode.ReadData(get.Data)
	if get.Err != nil || held.Kept > 0 {
		return false, lc.amended(path, cmp.Or(get.Err, error(wire.NoNode)))
	}
	next, record, err := c.Amended(weight, held.Record, holds)
	if err != nil || next == weight && record == held.Record {
		return false, err
	}
	if held.Stile != znode.DataVersion {
		held = znode.NewData(c)
	}
	held.Write(record)
	change := wire.SetAt(path, held.Text(), get.Stat.Version)
	if next != weight {
		change = k.replacement(lc, path, next, &held, get.Stat.Version)
	}
	if change == nil {
		return false, driver.ErrGone
	}
	err = lc.Session.Do(ctx, change)
	if ensemble.InVain(err) {
		k.notReplaced(lc, change)
	}
	if err = k.zk.Explain(ctx, err); err == nil {
		_, err = k.settle(ctx, lc)
	}
	if err != nil {
		return false, driver.Unknown(err)
	}
	return errors.Is(change.Err, wire.BadVersion), lc.amended(path, change.Err)
}

// amended explains the server's answer to a request about a claim's node.
func (f *Folder) amended(path string, err error) error {
	if errors.Is(err, wire.NoNode) {
		return driver.ErrGone
	}
	return f.zk.Refused(path, err)
}

// replacement returns the request that replaces a claim's node by one of another weight; settle finds out its outcome. It
// returns nil if the claim must go, or has another node by now.
func (k *Keeper) replacement(lc *LocalClaim, path string, weight int64, held *znode.Data, version int32) *wire.Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !lc.lease.stands() || lc.pathLocked() != path {
		return nil
	}
	number := strings.TrimPrefix(lc.node.name, lc.stem(lc.node.weight))
	held.First = lc.node.first
	lc.replaceLocked(wire.Replace(path, version, lc.dir+"/"+lc.stem(weight)+number, held.Text(), k.zk.ACL))
	return lc.asks.create
}

// notReplaced notes that a claim keeps its node, since the request to replace it was in vain: no call needs to wait for the
// answer.
func (k *Keeper) notReplaced(lc *LocalClaim, change *wire.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if lc.asks.create == change {
		lc.node.refused()
		lc.asks.create = nil
	}
}
