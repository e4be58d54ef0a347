package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A single is the recipe of Curator's mutex, read-write lock and leader latch: a name is one lock of the keeper's.
type single struct {
	zk   *ensemble
	line *keeper
}

// newSingle returns the recipe over a keeper, for a layout.
func newSingle(zk *ensemble, line *keeper, l layout) *single {
	line.layoutOf = func(string) layout { return l }
	return &single{zk: zk, line: line}
}

// enter puts a claim among the children of the name, or finds it there.
func (r *single) enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	return r.line.enter(ctx, dir, c, 0)
}

// await waits until a watch of the claim fires.
func (r *single) await(ctx context.Context, id string) error { return r.line.await(ctx, id) }

// renew renews claims, and amends those that ask for it.
func (r *single) renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return r.line.renewAmending(ctx, cs)
	}
	return r.line.renewAll(ctx, cs)
}

// leave removes the claim's node. The node of another client's claim is found by its name.
func (r *single) leave(ctx context.Context, dir string, l *driver.Release) error {
	if lc := r.line.localClaimOf(l.Claim.ID); lc != nil {
		return r.line.leave(ctx, l, lc)
	}
	s, err := r.zk.live()
	if err != nil {
		return err
	}
	return asking(r.line.folder(s, dir).leaveNode(ctx, guid(l.Claim.ID), l.Keep))
}

// listings returns the queues of names, except empty ones.
func (r *single) listings(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error) {
	var lists []*wire.Call
	calls := []*wire.Call{wire.Sync(r.zk.conf.Path)}
	for _, name := range names {
		dir, err := r.zk.path(name)
		if err != nil {
			return nil, err
		}
		lists = append(lists, wire.List(dir, nil))
	}
	if err := r.zk.do(ctx, s, append(calls, lists...)...); err != nil {
		return nil, err
	}
	var all []driver.Listing
	for i, list := range lists {
		l := driver.Listing{Name: names[i]}
		q, err := r.line.folder(s, list.Target()).standing(ctx, list)
		if err != nil {
			return nil, err
		}
		if l.Capacity, l.Claims = q.Capacity(), q.Standings(); len(q) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

// breaks reads the claim first, and deletes it then.
func (r *single) breaks(ctx context.Context, s *wire.Session, dir string, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	list := wire.List(dir, nil)
	if err := r.zk.do(ctx, s, r.zk.proven(list)...); err != nil {
		return driver.ClaimInfo{}, err
	}
	f := r.line.folder(s, dir)
	q, err := f.standing(ctx, list)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	for i, standing := range q.Standings() {
		if b.Ticket != 0 && standing.Ticket != b.Ticket {
			continue
		}
		if b.Ask {
			return standing, f.ask(ctx, &standing, q[i].read)
		}
		del := wire.Delete(dir + "/" + q[i].name)
		if err := r.zk.do(ctx, s, del); err != nil {
			return driver.ClaimInfo{}, err
		}
		if errors.Is(del.Err, wire.NoNode) {
			break
		}
		return standing, r.zk.undeleted(del.Target(), del.Err)
	}
	return driver.ClaimInfo{}, driver.ErrGone
}

// overlook watches the name's children, and the nodes of the claims that hold.
func (r *single) overlook(ctx context.Context, dir string, b *signal) ([]*wire.Call, error) {
	s, err := r.zk.live()
	if err != nil {
		return nil, err
	}
	return r.line.folder(s, dir).overlook(ctx, b)
}

// alert names the function that is told the ids of claims in danger.
func (r *single) alert(endangered func(ids ...string)) { r.line.alertTo(endangered) }
