package line

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// Ask asks a claim that holds for the lock, by the data of its node. In a node of stile it counts the requests, so that
// observers still see who holds. In any other node it replaces the data, as Curator's Revoker does. The holder's client
// watches its node, and so notices the change. The error is ErrGone if the claim does not hold any more.
func (f *Folder) Ask(ctx context.Context, holder *driver.ClaimInfo, seen *wire.Call) error {
	path := seen.Target()
	for {
		held := znode.ReadData(seen.Data)
		switch {
		case errors.Is(seen.Err, wire.NoNode) || held.Kept > 0 || !holder.Holds:
			return driver.ErrGone
		case seen.Err != nil:
			return f.zk.Refused(path, seen.Err)
		}
		text := znode.RevokeWord
		if held.Stile == znode.DataVersion {
			held.Asks++
			text = held.Text()
		}
		set := wire.SetAt(path, text, seen.Stat.Version)
		if err := f.zk.Do(ctx, f.Session, set); err != nil {
			return err
		}
		switch {
		case errors.Is(set.Err, wire.NoNode):
			return driver.ErrGone
		case !errors.Is(set.Err, wire.BadVersion):
			return f.zk.Refused(path, set.Err)
		}
		seen = wire.Get(path, nil)
		if err := f.zk.Do(ctx, f.Session, f.zk.Proven(seen)...); err != nil {
			return driver.NotYet(err)
		}
	}
}
