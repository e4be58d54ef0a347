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
	switch {
	case !driver.Amending(cs):
	case d.layout == semaphoreLayout:
		return driver.Unamended(ctx, cs, d.Renew)
	default:
		return d.renewAmending(ctx, cs)
	}
	if d.layout == semaphoreLayout {
		return d.renewParted(ctx, cs)
	}
	return d.renewAll(ctx, cs)
}

// renewAll renews claims that have one node each.
func (d *Driver) renewAll(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	shares := map[*wire.Session][]int{}
	d.mu.Lock()
	for i, c := range cs {
		switch lc := d.localClaims[c.ID]; {
		case d.ctx.Err() != nil:
			answers[i].Err = driver.ErrClosed
		case lc == nil:
			answers[i].Err = driver.ErrGone
		default:
			if answers[i].Err = d.verdict(lc); answers[i].Err == nil {
				shares[lc.session] = append(shares[lc.session], i)
			} else if lc.lease.state == claimOver {
				d.forget(lc)
			}
		}
	}
	d.mu.Unlock()
	for s, share := range shares {
		own := make([]*driver.Claim, len(share))
		for i, at := range share {
			own[i] = cs[at]
		}
		for i, answer := range d.renew(ctx, s, own) {
			answers[share[i]] = answer
		}
	}
	return answers
}

// renew renews claims of one session.
func (d *Driver) renew(ctx context.Context, s *wire.Session, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	localClaims := make([]*localClaim, len(cs)) // nil once a claim has its answer
	left := 0
	for i, c := range cs {
		lc := d.localClaimOf(c.ID)
		if lc == nil {
			answers[i].Err = driver.ErrGone
			continue
		}
		if lc.session != s { // it entered anew a moment ago, and its lease was not continuous; s says nothing about this node
			answers[i].Err = driver.ErrSession
			continue
		}
		stands, err := d.settle(ctx, lc)
		switch {
		case err != nil:
			answers[i].Err = err
		case !stands:
			d.drop(lc)
			answers[i].Err = driver.ErrGone
		default:
			localClaims[i] = lc
			left++
		}
	}
	for left > 0 { // mostly once; a node that changes meanwhile is read again
		left = d.renewOnce(ctx, s, cs, localClaims, answers)
	}
	return answers
}

// renewOnce answers the claims whose watches stood during the request, or whose nodes it read. It returns how many claims
// are left.
func (d *Driver) renewOnce(
	ctx context.Context, s *wire.Session, cs []*driver.Claim, localClaims []*localClaim, answers []driver.Renewal,
) (left int) {
	calls := d.proven()
	looks := make([]*wire.Call, len(cs))
	d.mu.Lock()
	for i, lc := range localClaims {
		if lc != nil && !lc.listener.own.Stands() {
			looks[i] = d.inspect(lc)
			calls = append(calls, looks[i])
		}
	}
	d.mu.Unlock()
	err := d.do(ctx, s, calls...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, lc := range localClaims {
		switch {
		case lc == nil:
			continue
		case err != nil:
			answers[i].Err = err
			if errors.Is(err, driver.ErrSession) {
				d.forget(lc)
			}
		case looks[i] == nil && !lc.listener.own.Stands() && lc.lease.stands():
			left++
			continue
		default:
			answers[i] = d.renewed(lc, cs[i], looks[i])
		}
		localClaims[i] = nil
	}
	return left
}

// renewed takes the answer for one claim. The caller holds mu.
func (d *Driver) renewed(lc *localClaim, c *driver.Claim, look *wire.Call) driver.Renewal {
	if look != nil {
		_ = d.inspected(lc, look, true) // verdict returns it
	}
	if gone := d.verdict(lc); gone != nil {
		if lc.lease.state == claimOver {
			d.forget(lc)
		}
		return driver.Renewal{Err: gone}
	}
	lease := c.Wait
	if lc.lease.state == claimHolding {
		lease = c.TTL
	}
	d.prolong(lc, lease)
	return driver.Renewal{TTL: lc.trusted(), Asks: lc.listener.demand.tell()} // it may hold without knowing it yet
}

// Leave removes the claim's node. The node of another client's claim is found by its name.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	if d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	if d.layout == semaphoreLayout {
		return d.leaveParted(ctx, l)
	}
	if lc := d.localClaimOf(l.Claim.ID); lc != nil {
		return d.leave(ctx, l, lc)
	}
	return asking(d.leaveOther(ctx, l))
}

// leave removes the node of a claim of this driver.
func (d *Driver) leave(ctx context.Context, l *driver.Release, lc *localClaim) error {
	d.mu.Lock()
	gone, again := d.verdict(lc), lc.lease.state == claimLeaving
	if lc.lease.state == claimOver {
		d.forget(lc)
	}
	d.mu.Unlock()
	if gone != nil && !again {
		return gone
	}
	stands, err := d.settle(ctx, lc)
	if err == nil && stands && l.Keep > 0 && !again {
		if kept, err := d.keepOwn(ctx, lc, l.Keep); err != nil || kept {
			return err
		}
	}
	d.mu.Lock()
	if !lc.become(claimLeaving, driver.ErrGone) { // it is over, or another client released and keeps it
		defer d.mu.Unlock()
		return lc.lease.gone
	}
	lc.asks.tryAt = never // otherwise the janitor might remove it, and this call would find it gone
	d.mu.Unlock()
	was, err := d.removeFirst(ctx, lc)
	return d.left(lc, was || again, err)
}

// left ends the release of a claim, and returns an error if its node was not there.
func (d *Driver) left(lc *localClaim, was bool, err error) error {
	switch {
	case errors.Is(err, errKept):
		return driver.ErrGone
	case final(err):
		return err
	case err != nil:
		return driver.Unknown(err) // the janitor goes on with the removal
	}
	d.drop(lc)
	if !was {
		return driver.ErrGone
	}
	return nil
}

// removeFirst removes the node before the janitor does. The janitor goes on if that fails, unless the refusal is final.
func (d *Driver) removeFirst(ctx context.Context, lc *localClaim) (was bool, err error) {
	switch was, err = d.remove(ctx, lc); {
	case final(err):
		d.drop(lc)
	case err != nil:
		d.mu.Lock()
		defer d.mu.Unlock()
		lc.asks.tryAt = wire.Now()
		d.look(lc.asks.tryAt)
	}
	return was, err
}

// keepOwn is leaveKept for a claim of this driver.
func (d *Driver) keepOwn(ctx context.Context, lc *localClaim, length time.Duration) (kept bool, err error) {
	d.mu.Lock()
	name := lc.node.name
	d.mu.Unlock()
	kept, err = d.leaveKept(ctx, lc.session, lc.dir, name, length)
	if err == nil && kept {
		d.mu.Lock()
		d.keep(lc, length)
		d.mu.Unlock()
	}
	if errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
		if stands, unsure := d.settle(ctx, lc); unsure != nil || stands && d.renamed(lc, name) {
			return false, unsure // the claim was being amended
		}
		d.drop(lc)
	}
	return kept, err
}

// leaveKept marks a claim that holds as left and kept, and reports whether it held.
func (d *Driver) leaveKept(ctx context.Context, s *wire.Session, dir, name string, length time.Duration) (bool, error) {
	list, get := wire.List(dir, nil), wire.Get(dir+"/"+name, nil)
	if err := d.do(ctx, s, d.proven(list, get)...); err != nil {
		return false, err
	}
	q, _ := d.layoutOf(dir).newQueue(list.Children)
	switch i := find(q, name); {
	case errors.Is(get.Err, wire.NoNode) || get.Err == nil && list.Err == nil && i < 0:
		return false, driver.ErrGone
	case list.Err != nil || get.Err != nil:
		return false, d.refused(dir, errors.Join(list.Err, get.Err))
	case i >= q.Holding():
		return false, nil
	}
	held := readData(get.Data)
	held.Stile, held.Kept = dataVersion, length
	set := wire.Set(dir+"/"+name, held.text())
	if err := d.do(ctx, s, set); err != nil {
		return false, err
	}
	if errors.Is(set.Err, wire.NoNode) {
		return false, driver.ErrGone
	}
	return true, d.refused(dir, set.Err)
}

// leaveOther removes another client's claim.
func (d *Driver) leaveOther(ctx context.Context, l *driver.Release) error {
	dir, err := d.path(l.Claim.Name)
	if err != nil {
		return err
	}
	s, err := d.live()
	if err != nil {
		return err
	}
	return d.leaveNode(ctx, s, dir, guid(l.Claim.ID), l.Keep)
}

// leaveNode removes the node whose name begins like this, or keeps it.
func (d *Driver) leaveNode(ctx context.Context, s *wire.Session, dir, begins string, keep time.Duration) error {
	list := wire.List(dir, nil)
	if err := d.do(ctx, s, d.proven(list)...); err != nil {
		return err
	}
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return d.refused(dir, list.Err)
	}
	q, _ := d.layoutOf(dir).newQueue(list.Children)
	i := named(q, begins)
	if i < 0 {
		return driver.ErrGone
	}
	get := wire.Get(dir+"/"+q[i].name, nil)
	if err := d.do(ctx, s, d.proven(get)...); err != nil {
		return err
	}
	held := readData(get.Data)
	switch {
	case errors.Is(get.Err, wire.NoNode) || held.Kept > 0:
		return driver.ErrGone
	case get.Err != nil:
		return d.refused(dir, get.Err)
	case keep > 0:
		if kept, err := d.leaveKept(ctx, s, dir, q[i].name, keep); err != nil || kept {
			return err
		}
	}
	del := wire.DeleteAt(dir+"/"+q[i].name, get.Stat.Version)
	if err := d.do(ctx, s, del); err != nil {
		return err
	}
	switch {
	case errors.Is(del.Err, wire.BadVersion):
		return d.leaveNode(ctx, s, dir, begins, keep) // it changed meanwhile, most likely to be kept
	case errors.Is(del.Err, wire.NoNode):
		return driver.ErrGone
	}
	return d.undeleted(del.Target(), del.Err)
}
