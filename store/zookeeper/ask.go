package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// ask notes in the node of a claim that holds that somebody asks for the lock. In a node of stile it counts the requests,
// so that observers still see who holds. In any other node it replaces the data, as Curator's Revoker does. The holder's
// client watches its node, and so notices each change of the data.
func (f *folder) ask(ctx context.Context, holder *driver.ClaimInfo, seen *wire.Call) error {
	path := seen.Target()
	for {
		held := readData(seen.Data)
		switch {
		case errors.Is(seen.Err, wire.NoNode) || held.Kept > 0 || !holder.Holds:
			return driver.ErrGone
		case seen.Err != nil:
			return f.zk.refused(path, seen.Err)
		}
		text := revokeWord
		if held.Stile == dataVersion {
			held.Asks++
			text = held.text()
		}
		set := wire.SetAt(path, text, seen.Stat.Version)
		if err := f.zk.do(ctx, f.session, set); err != nil {
			return err
		}
		switch {
		case errors.Is(set.Err, wire.NoNode):
			return driver.ErrGone
		case !errors.Is(set.Err, wire.BadVersion):
			return f.zk.refused(path, set.Err)
		}
		seen = wire.Get(path, nil)
		if err := f.zk.do(ctx, f.session, f.zk.proven(seen)...); err != nil {
			return driver.NotYet(err)
		}
	}
}
