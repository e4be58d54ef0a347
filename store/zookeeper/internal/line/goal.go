package line

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A view is what a call knows of a node that must go.
type view struct {
	begins  string        // how the names of the claim's nodes begin; "" if the node is always this one
	name    string        // "" while unknown
	missing bool          // a list did not have the node
	read    bool          // the fields below are known and, as far as known, up to date
	there   bool          // the node existed then
	version int32         // of its data; -1 means any
	kept    time.Duration // for how long another client keeps it
	waits   bool          // its claim does not hold, so it cannot be kept

	deleted bool // by this call
	marked  bool // as kept, by this call
}

// A move is the next step of a call: a request, or the end.
type move int

const (
	moveSeek   move = iota // look for the node's name in a proven list
	moveRead               // read the node, proven
	moveKeep               // mark it as kept, if its claim holds
	moveDelete             // delete it, if it has the version that is known
	endDeleted             // this call has deleted it
	endMarked              // this call has marked it as kept
	endAbsent              // it is not there
	endKept                // another client keeps it
)

// leaves returns the next move about a node that must go or, with keep, must stay for a while if its claim holds. It decides
// and sends nothing. A call deletes a node only in the version that it has read: if another client has changed the node,
// most likely to keep it, the call reads it again. If another client's claim is amended, another node may replace its node,
// and the call looks for the new name.
//
//	         it has another name, or none
//	    ┌─────────────────┬──────────────────────────────┐
//	┌───▼──┐ there    ┌───┴──┐ it is there  ┌──────┐     │ it went
//	│ seek ├─────────►│ read ├─────────────►│ keep ├──┐  │
//	└───┬──┘          └▲──┬──┘ may be kept  └──┬───┘  │waits
//	    │ not in       │  │ kept by another    │ holds│  │
//	    │ the list     │  ▼                    ▼   ┌──▼──┴───┐
//	    ▼ absent       │ kept               marked │ deleted │
//	                   └───────────────────────────┴─────────┘
//	                     somebody has changed it
func leaves(keep time.Duration, v view) move {
	switch {
	case v.deleted:
		return endDeleted
	case v.marked:
		return endMarked
	case v.missing:
		return endAbsent
	case v.name == "":
		return moveSeek
	case !v.read:
		return moveRead
	case !v.there && v.begins != "":
		return moveSeek
	case !v.there:
		return endAbsent
	case v.kept > 0:
		return endKept
	case keep > 0 && !v.waits:
		return moveKeep
	}
	return moveDelete
}

// wasSought returns the view after a list in which the node has this name; "" means that the list does not have the node.
func (v view) wasSought(name string) view {
	return view{begins: v.begins, name: name, missing: name == ""}
}

// wasRead returns the view after the node was read.
func (v view) wasRead(err error, version int32, kept time.Duration) view {
	now := view{begins: v.begins, name: v.name, read: true}
	if err == nil {
		now.there, now.version, now.kept = true, version, kept
	}
	return now
}

// wasDeleted returns the view after a delete: it deleted the node, found that another client had changed it, or found no
// node.
func (v view) wasDeleted(deleted, changed bool) view {
	v.deleted = deleted
	if deleted {
		return v
	}
	return view{begins: v.begins, name: v.name, read: !changed}
}

// pursue makes the moves that leaves returns, until the end, and returns the last view. After an error the outcome of the
// last move is unknown, unless the error says otherwise.
func (f *Folder) pursue(ctx context.Context, keep time.Duration, v view) (end move, after view, err error) {
	for {
		next := leaves(keep, v)
		switch next {
		case moveSeek:
			v, err = f.seek(ctx, v)
		case moveRead:
			v, err = f.look(ctx, v)
		case moveKeep:
			v.marked, err = f.leaveKept(ctx, v.name, keep)
			if v.waits = !v.marked; errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
				v, err = v.wasRead(wire.NoNode, 0, 0), nil
			}
		case moveDelete:
			var deleted, changed bool
			deleted, changed, err = f.zk.Delete(ctx, f.Session, wire.DeleteAt(f.dir+"/"+v.name, v.version))
			if err == nil {
				v = v.wasDeleted(deleted, changed)
			}
		default:
			return next, v, nil
		}
		if err != nil {
			return next, v, err
		}
	}
}

// seek makes moveSeek.
func (f *Folder) seek(ctx context.Context, v view) (view, error) {
	list := wire.List(f.dir, nil)
	if err := f.zk.Do(ctx, f.Session, f.zk.Proven(list)...); err != nil {
		return v, err
	}
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return v, f.zk.Refused(f.dir, list.Err)
	}
	q, _ := f.layout.NewQueue(list.Children)
	if i := znode.Named(q, v.begins); i >= 0 {
		return v.wasSought(q[i].Name), nil
	}
	return v.wasSought(""), nil
}

// look makes moveRead.
func (f *Folder) look(ctx context.Context, v view) (view, error) {
	get := wire.Get(f.dir+"/"+v.name, nil)
	if err := f.zk.Do(ctx, f.Session, f.zk.Proven(get)...); err != nil {
		return v, err
	}
	if get.Err != nil && !errors.Is(get.Err, wire.NoNode) {
		return v, f.zk.Refused(get.Target(), get.Err)
	}
	return v.wasRead(get.Err, get.Stat.Version, znode.ReadData(get.Data).Kept), nil
}
