package line

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A Folder is the nodes under one path, as a session sees them. It does not use the table of claims.
type Folder struct {
	zk      *ensemble.Ensemble
	Session *wire.Session
	dir     string       // the path
	layout  znode.Layout // how the nodes are named
}

// Folder returns the folder of a path.
func (k *Keeper) Folder(s *wire.Session, dir string) *Folder {
	return &Folder{zk: k.zk, Session: s, dir: dir, layout: k.LayoutOf(dir)}
}

// Reclaim removes the claims that a claim reclaims, whether or not the claim fits into the queue.
func (f *Folder) Reclaim(ctx context.Context, c *driver.Claim) error {
	for {
		q, err := f.queue(ctx, c)
		if err != nil {
			return err
		}
		if again, err := f.evict(ctx, q.Earlier(c)); !again {
			return err
		}
	}
}

// queue returns the queue of a folder for a claim that is about to enter. If the claim reclaims, queue also reads the data
// of the nodes.
func (f *Folder) queue(ctx context.Context, c *driver.Claim) (znode.Queue, error) {
	list := wire.List(f.dir, nil)
	if err := f.zk.Do(ctx, f.Session, wire.Sync(f.dir), list); err != nil {
		return nil, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, f.zk.Refused(f.dir, list.Err)
	}
	q, odd := f.layout.NewQueue(list.Children)
	f.zk.Strange(f.dir, odd)
	if !Reclaims(c) {
		return q, nil
	}
	return q, f.read(ctx, q)
}

// Reclaims reports whether a claim takes the place of its job's earlier runs.
func Reclaims(c *driver.Claim) bool { return c.Reclaim && c.Owner != "" }

// evict removes the claims of earlier runs. If a node has changed since it was read, most likely because its claim left and
// is kept, again is true, and the caller starts over.
func (f *Folder) evict(ctx context.Context, earlier znode.Queue) (again bool, err error) {
	if len(earlier) == 0 {
		return false, nil
	}
	deletes := make([]*wire.Call, len(earlier))
	for i, n := range earlier {
		deletes[i] = wire.DeleteAt(f.dir+"/"+n.Name, n.Read.Stat.Version)
	}
	_, changed, err := f.zk.Delete(ctx, f.Session, deletes...)
	return changed, err
}

// readClaims reads the nodes of a list of children. It returns the claims that still exist, in the order of their tickets.
func (f *Folder) readClaims(ctx context.Context, list *wire.Call) (there znode.Queue, err error) {
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, f.zk.Refused(f.dir, list.Err)
	}
	q, odd := f.layout.NewQueue(list.Children)
	f.zk.Strange(f.dir, odd)
	for part := range slices.Chunk(q, ensemble.AtOnce) {
		if err := f.read(ctx, part); err != nil {
			return nil, err
		}
		for _, n := range part {
			if n.Read.Err != nil && !errors.Is(n.Read.Err, wire.NoNode) {
				return nil, f.zk.Refused(n.Read.Target(), n.Read.Err)
			}
			if n.Read.Err == nil {
				there = append(there, n)
			}
		}
	}
	slices.SortFunc(there, func(a, b znode.Node) int { return cmp.Compare(znode.TicketOf(a.Read), znode.TicketOf(b.Read)) })
	return there, nil
}

// read reads the nodes of claims, and puts the answers into the queue.
func (f *Folder) read(ctx context.Context, q znode.Queue) error {
	gets := make([]*wire.Call, len(q))
	for i := range q {
		gets[i] = wire.Get(f.dir+"/"+q[i].Name, nil)
	}
	if len(gets) == 0 {
		return nil
	}
	if err := f.zk.Do(ctx, f.Session, gets...); err != nil {
		return err // an answer may still arrive, and change its call
	}
	for i := range q {
		q[i].Read = gets[i]
	}
	return nil
}

// named returns the name of the first node whose name begins like this, proven; "" if there is none.
func (f *Folder) named(ctx context.Context, begins string) (string, error) {
	list := wire.List(f.dir, nil)
	if err := f.zk.Do(ctx, f.Session, f.zk.Proven(list)...); err != nil {
		return "", err
	}
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return "", f.zk.Refused(f.dir, list.Err)
	}
	q, _ := f.layout.NewQueue(list.Children)
	if i := znode.Named(q, begins); i >= 0 {
		return q[i].Name, nil
	}
	return "", nil
}
