package line

import (
	"context"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A Single is the recipe of Curator's mutex, read-write lock and leader latch: the keeper has one lock for each name.
type Single struct {
	zk   *ensemble.Ensemble
	line *Keeper
}

// NewSingle returns the recipe over a keeper, for a layout.
func NewSingle(zk *ensemble.Ensemble, line *Keeper, l znode.Layout) *Single {
	line.LayoutOf = func(string) znode.Layout { return l }
	return &Single{zk: zk, line: line}
}

// Enter puts a claim among the children of the name, or finds it there.
func (r *Single) Enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	return r.line.Enter(ctx, dir, c, znode.First{})
}

// Await waits until a watch of the claim fires.
func (r *Single) Await(ctx context.Context, id string) error { return r.line.Await(ctx, id) }

// Renew renews claims, and amends those that ask for it.
func (r *Single) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return r.line.renewAmending(ctx, cs)
	}
	return r.line.RenewAll(ctx, cs)
}

// Leave removes the claim's node, or marks it as kept. It finds the node of another client's claim by its name.
func (r *Single) Leave(ctx context.Context, dir string, l *driver.Release) error {
	if lc := r.line.LocalClaimOf(l.Claim.ID); lc != nil {
		return r.line.Leave(ctx, l, lc)
	}
	s, err := r.zk.Live()
	if err != nil {
		return err
	}
	return ensemble.Asking(r.line.Folder(s, dir).LeaveNode(ctx, znode.GUID(l.Claim.ID), l.Keep))
}

// List returns the queues of names, except empty ones.
func (r *Single) List(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error) {
	var lists []*wire.Call
	calls := []*wire.Call{wire.Sync(r.zk.Conf.Path)}
	for _, name := range names {
		dir, err := r.zk.Path(name)
		if err != nil {
			return nil, err
		}
		lists = append(lists, wire.List(dir, nil))
	}
	if err := r.zk.Do(ctx, s, append(calls, lists...)...); err != nil {
		return nil, err
	}
	var all []driver.Listing
	for i, list := range lists {
		l := driver.Listing{Name: names[i]}
		q, err := r.line.Folder(s, list.Target()).readClaims(ctx, list)
		if err != nil {
			return nil, err
		}
		if l.Capacity, l.Claims = q.Capacity(), q.Standings(); len(q) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

// Break reads the claim, and then deletes its node or asks for the lock.
func (r *Single) Break(ctx context.Context, s *wire.Session, dir string, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	list := wire.List(dir, nil)
	if err := r.zk.Do(ctx, s, r.zk.Proven(list)...); err != nil {
		return driver.ClaimInfo{}, err
	}
	f := r.line.Folder(s, dir)
	q, err := f.readClaims(ctx, list)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	for i, standing := range q.Standings() {
		if b.Ticket != 0 && standing.Ticket != b.Ticket {
			continue
		}
		if b.Ask {
			return standing, f.Ask(ctx, &standing, q[i].Read)
		}
		deleted, _, err := r.zk.Delete(ctx, s, wire.Delete(dir+"/"+q[i].Name))
		if err == nil && !deleted {
			break
		}
		return standing, err
	}
	return driver.ClaimInfo{}, driver.ErrGone
}

// Overlook watches the name's children, and the nodes of the claims that hold.
func (r *Single) Overlook(ctx context.Context, dir string, b *Signal) ([]*wire.Call, error) {
	s, err := r.zk.Live()
	if err != nil {
		return nil, err
	}
	return r.line.Folder(s, dir).Overlook(ctx, b)
}

// Alert sets the function that gets the ids of claims in danger.
func (r *Single) Alert(endangered func(ids ...string)) { r.line.AlertTo(endangered) }
