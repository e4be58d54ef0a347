package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Renew sends one request for all claims whose nodes are watched, and one more for each claim whose node is not. A quorum
// agrees that the session lives. By then all earlier changes have arrived, including the removals of nodes.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	return d.recipe.renew(ctx, cs)
}

// renewAll renews claims that have one node each.
func (k *keeper) renewAll(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	shares := map[*wire.Session][]int{}
	k.mu.Lock()
	for i, c := range cs {
		switch lc := k.localClaims[c.ID]; {
		case k.zk.ctx.Err() != nil:
			answers[i].Err = driver.ErrClosed
		case lc == nil:
			answers[i].Err = driver.ErrGone
		default:
			if answers[i].Err = k.verdict(lc); answers[i].Err == nil {
				shares[lc.session] = append(shares[lc.session], i)
			} else if lc.lease.state == claimOver {
				k.forget(lc)
			}
		}
	}
	k.mu.Unlock()
	for s, share := range shares {
		own := make([]*driver.Claim, len(share))
		for i, at := range share {
			own[i] = cs[at]
		}
		for i, answer := range k.renew(ctx, s, own) {
			answers[share[i]] = answer
		}
	}
	return answers
}

// renew renews claims of one session.
func (k *keeper) renew(ctx context.Context, s *wire.Session, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	localClaims := make([]*localClaim, len(cs)) // nil once a claim has its answer
	left := 0
	for i, c := range cs {
		lc := k.localClaimOf(c.ID)
		if lc == nil {
			answers[i].Err = driver.ErrGone
			continue
		}
		if lc.session != s { // it entered anew a moment ago, and its lease was not continuous; s says nothing about this node
			answers[i].Err = driver.ErrSession
			continue
		}
		stands, err := k.settle(ctx, lc)
		switch {
		case err != nil:
			answers[i].Err = err
		case !stands:
			k.drop(lc)
			answers[i].Err = driver.ErrGone
		default:
			localClaims[i] = lc
			left++
		}
	}
	for left > 0 { // mostly once; a node that changes meanwhile is read again
		left = k.renewOnce(ctx, s, cs, localClaims, answers)
	}
	return answers
}

// renewOnce answers the claims whose watches stood during the request, or whose nodes it read. It returns how many claims
// are left.
func (k *keeper) renewOnce(
	ctx context.Context, s *wire.Session, cs []*driver.Claim, localClaims []*localClaim, answers []driver.Renewal,
) (left int) {
	calls := k.zk.proven()
	looks := make([]*wire.Call, len(cs))
	k.mu.Lock()
	for i, lc := range localClaims {
		if lc != nil && !lc.listener.own.Stands() {
			looks[i] = k.inspect(lc)
			calls = append(calls, looks[i])
		}
	}
	k.mu.Unlock()
	err := k.zk.do(ctx, s, calls...)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, lc := range localClaims {
		switch {
		case lc == nil:
			continue
		case err != nil:
			answers[i].Err = err
			if errors.Is(err, driver.ErrSession) {
				k.forget(lc)
			}
		case looks[i] == nil && !lc.listener.own.Stands() && lc.lease.stands():
			left++
			continue
		default:
			answers[i] = k.renewed(lc, cs[i], looks[i])
		}
		localClaims[i] = nil
	}
	return left
}

// renewed takes the answer for one claim. The caller holds mu.
func (k *keeper) renewed(lc *localClaim, c *driver.Claim, look *wire.Call) driver.Renewal {
	if look != nil {
		_ = k.inspected(lc, look, true) // verdict returns it
	}
	if gone := k.verdict(lc); gone != nil {
		if lc.lease.state == claimOver {
			k.forget(lc)
		}
		return driver.Renewal{Err: gone}
	}
	lease := c.Wait
	if lc.lease.state == claimHolding {
		lease = c.TTL
	}
	k.prolong(lc, lease)
	return driver.Renewal{TTL: lc.trusted(), Asks: lc.listener.demand.tell()} // it may hold without knowing it yet
}

// Leave removes the claim's nodes. The nodes of another client's claim are found by their names.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	if d.zk.ctx.Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	dir, err := d.zk.path(l.Claim.Name)
	if err != nil {
		return err
	}
	return d.recipe.leave(ctx, dir, l)
}

// leave removes the node of a claim of this driver.
func (k *keeper) leave(ctx context.Context, l *driver.Release, lc *localClaim) error {
	k.mu.Lock()
	gone, again := k.verdict(lc), lc.lease.state == claimLeaving
	if lc.lease.state == claimOver {
		k.forget(lc)
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
	if !lc.become(claimLeaving, driver.ErrGone) { // it is over, or another client released and keeps it
		defer k.mu.Unlock()
		return lc.lease.gone
	}
	lc.asks.tryAt = never // otherwise the janitor might remove it, and this call would find it gone
	k.mu.Unlock()
	was, err := k.removeFirst(ctx, lc)
	return k.left(lc, was || again, err)
}

// left ends the release of a claim, and returns an error if its node was not there.
func (k *keeper) left(lc *localClaim, was bool, err error) error {
	switch {
	case errors.Is(err, errKept):
		return driver.ErrGone
	case final(err):
		return err
	case err != nil:
		return driver.Unknown(err) // the janitor goes on with the removal
	}
	k.drop(lc)
	if !was {
		return driver.ErrGone
	}
	return nil
}

// removeFirst removes the node before the janitor does. The janitor goes on if that fails, unless the refusal is final.
func (k *keeper) removeFirst(ctx context.Context, lc *localClaim) (was bool, err error) {
	switch was, err = k.remove(ctx, lc); {
	case final(err):
		k.drop(lc)
	case err != nil:
		k.mu.Lock()
		defer k.mu.Unlock()
		lc.asks.tryAt = wire.Now()
		k.janitor.look(lc.asks.tryAt)
	}
	return was, err
}

// keepOwn is leaveKept for a claim of this driver.
func (k *keeper) keepOwn(ctx context.Context, lc *localClaim, length time.Duration) (kept bool, err error) {
	k.mu.Lock()
	name := lc.node.name
	k.mu.Unlock()
	kept, err = lc.leaveKept(ctx, name, length)
	if err == nil && kept {
		k.mu.Lock()
		k.keep(lc, length)
		k.mu.Unlock()
	}
	if errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
		if stands, unsure := k.settle(ctx, lc); unsure != nil || stands && k.renamed(lc, name) {
			return false, unsure // the claim was being amended
		}
		k.drop(lc)
	}
	return kept, err
}

// leaveKept marks a claim that holds as left and kept, and reports whether it held.
func (f *folder) leaveKept(ctx context.Context, name string, length time.Duration) (bool, error) {
	list, get := wire.List(f.dir, nil), wire.Get(f.dir+"/"+name, nil)
	if err := f.zk.do(ctx, f.session, f.zk.proven(list, get)...); err != nil {
		return false, err
	}
	q, _ := f.layout.newQueue(list.Children)
	switch i := find(q, name); {
	case errors.Is(get.Err, wire.NoNode) || get.Err == nil && list.Err == nil && i < 0:
		return false, driver.ErrGone
	case list.Err != nil || get.Err != nil:
		return false, f.zk.refused(f.dir, errors.Join(list.Err, get.Err))
	case i >= q.Holding():
		return false, nil
	}
	held := readData(get.Data)
	held.Stile, held.Kept = dataVersion, length
	set := wire.Set(f.dir+"/"+name, held.text())
	if err := f.zk.do(ctx, f.session, set); err != nil {
		return false, err
	}
	if errors.Is(set.Err, wire.NoNode) {
		return false, driver.ErrGone
	}
	return true, f.zk.refused(f.dir, set.Err)
}

// leaveNode removes the node whose name begins like this, or keeps it.
func (f *folder) leaveNode(ctx context.Context, begins string, keep time.Duration) error {
	list := wire.List(f.dir, nil)
	if err := f.zk.do(ctx, f.session, f.zk.proven(list)...); err != nil {
		return err
	}
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return f.zk.refused(f.dir, list.Err)
	}
	q, _ := f.layout.newQueue(list.Children)
	i := named(q, begins)
	if i < 0 {
		return driver.ErrGone
	}
	get := wire.Get(f.dir+"/"+q[i].name, nil)
	if err := f.zk.do(ctx, f.session, f.zk.proven(get)...); err != nil {
		return err
	}
	held := readData(get.Data)
	switch {
	case errors.Is(get.Err, wire.NoNode) || held.Kept > 0:
		return driver.ErrGone
	case get.Err != nil:
		return f.zk.refused(f.dir, get.Err)
	case keep > 0:
		if kept, err := f.leaveKept(ctx, q[i].name, keep); err != nil || kept {
			return err
		}
	}
	del := wire.DeleteAt(f.dir+"/"+q[i].name, get.Stat.Version)
	if err := f.zk.do(ctx, f.session, del); err != nil {
		return err
	}
	switch {
	case errors.Is(del.Err, wire.BadVersion):
		return f.leaveNode(ctx, begins, keep) // it changed meanwhile, most likely to be kept
	case errors.Is(del.Err, wire.NoNode):
		return driver.ErrGone
	}
	return f.zk.undeleted(del.Target(), del.Err)
}
