package line

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A view is what a call knows of a node that is to go.
type view struct {
	read    bool  // the node was read, or its version is known, and nobody is known to have changed it since
	there   bool  // it stood then
	version int32 // of its data; -1 if it goes whatever it holds
	kept    time.Duration
	waits   bool // its claim does not hold, so it cannot be kept

	deleted bool // by this call
	marked  bool // as kept, by this call
}

// A move is what the call does next: a request, or its end.
type move int

const (
	moveRead   move = iota // read the node, with a quorum's word
	moveKeep               // mark it as kept, if its claim holds
	moveDelete             // delete it, if it has the version that is known
	endDeleted             // this call has deleted it
	endMarked              // this call has marked it as kept
	endAbsent              // it is not there
	endKept                // another client keeps it
)

// leaves is the goal of a node that is to go, or to stay for a while if its claim holds. It decides, and does nothing else. A node
// is deleted only as it was read: if another client has changed it, most likely to keep it, it is read again.
//
//	      ┌──────┐ it is there   ┌──────┐       ┌─────────┐
//	─────►│ read ├──────────────►│ keep ├──────►│ deleted │
//	      └▲──┬──┘  may be kept  └──┬───┘ waits └────┬────┘
//	       │  │ kept by another,    │ it holds       │ somebody has changed it
//	       │  ▼ or absent           ▼                │
//	       │ end                 marked              │
//	       └─────────────────────────────────────────┘
func leaves(keep time.Duration, v view) move {
	switch {
	case v.deleted:
		return endDeleted
	case v.marked:
		return endMarked
	case !v.read:
		return moveRead
	case !v.there:
		return endAbsent
	case v.kept > 0:
		return endKept
	case keep > 0 && !v.waits:
		return moveKeep
	}
	return moveDelete
}

// wasRead is the view after the node was read.
func (v view) wasRead(err error, version int32, kept time.Duration) view {
	if err != nil {
		return view{read: true}
	}
	return view{read: true, there: true, version: version, kept: kept}
}

// wasDeleted is the view after the answer to a delete: the node went, somebody has changed it, or else it was not there.
func (v view) wasDeleted(deleted, changed bool) view {
	v.deleted = deleted
	if deleted {
		return v
	}
	return view{read: !changed}
}

// pursue makes the moves of leaves until it ends. With an error nobody knows whether the last move was made, unless the error says
// so. It returns what is known of the node then.
func (f *Folder) pursue(ctx context.Context, name string, keep time.Duration, v view) (move, view, error) {
	path := f.dir + "/" + name
	for {
		next := leaves(keep, v)
		switch next {
		case moveRead:
			get := wire.Get(path, nil)
			if err := f.zk.Do(ctx, f.Session, f.zk.Proven(get)...); err != nil {
				return next, v, err
			}
			if get.Err != nil && !errors.Is(get.Err, wire.NoNode) {
				return next, v, f.zk.Refused(path, get.Err)
			}
			v = v.wasRead(get.Err, get.Stat.Version, znode.ReadData(get.Data).Kept)
		case moveKeep:
			marked, err := f.leaveKept(ctx, name, keep)
			switch {
			case errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession):
				v = view{read: true}
			case err != nil:
				return next, v, err
			default:
				v.marked, v.waits = marked, !marked
			}
		case moveDelete:
			deleted, changed, err := f.zk.Delete(ctx, f.Session, wire.DeleteAt(path, v.version))
			if err != nil {
				return next, v, err
			}
			v = v.wasDeleted(deleted, changed)
		default:
			return next, v, nil
		}
	}
}
