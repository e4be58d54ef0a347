package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An attempt is one call about one claim, while it runs.
type attempt struct {
	seat
	k     *localClaim   // nil if the driver does not know the claim
	value *value        // the value that joins writes; nil before outfit
	v     *view         // nil if nothing was read, or a transaction has changed the queue since
	up    *upkeep       // from keep-alives that were answered before the view was read, or the key put; nil without any
	next  pair          // the leases in hand
	keep  time.Duration // how long the claim is kept after it leaves
	began time.Duration // by boottime

	hangsOn *lease // the key's lease before the move
}

// A pair is the leases in hand: the call has them, and has not attached the key to them yet. If it never does, they are
// given back.
type pair struct {
	life, on *lease
	up       *upkeep // from a keep-alive of on; nil if there was none
}

func grantOf(l *lease) grant { return grant{l.id, l.term} }

// hold returns the leases as goals see them.
func (p *pair) hold() hold {
	if p.on == nil {
		return hold{}
	}
	return hold{grantOf(p.life), grantOf(p.on)}
}

// newAttempt begins a call about a claim.
func (d *Driver) newAttempt(c *driver.Claim) *attempt {
	return &attempt{seat: seat{c: c, folder: d.wire.folder(c.Name)}, k: d.claims.of(c.ID), began: boottime.Now()}
}

// sit updates the seat by the driver's present knowledge of the claim.
func (d *Driver) sit(a *attempt) *seat {
	s := &a.seat
	s.most = min(mostReclaimed, int(d.wire.atOnce.Load()))
	s.alive, s.hand = hold{}, a.next.hold()
	if a.up != nil {
		s.alive = hold{grantOf(a.up.life), grantOf(a.up.on)}
	}
	s.known, s.key, s.has, s.created, s.modified = false, "", hold{}, 0, 0
	if a.k != nil {
		a.hangsOn = d.claims.tell(a.k, s)
	}
	return s
}

// pursue makes the moves of a goal until it ends, and returns the end. If a move fails, pursue returns this move with the
// error. No other function sends a transaction that changes the key of this client's claim.
func (d *Driver) pursue(ctx context.Context, a *attempt, next goal) (m move, err error) {
	var was *answer
	for {
		if m = next(d.sit(a), a.v, was); m.end != goesOn {
			return m, nil
		}
		switch {
		case m.txn != nil:
			was, err = d.change(ctx, a, m)
		case m.wants != wantsNone:
			was, err = nil, d.provide(ctx, a, m.wants)
		default:
			was, err = d.look(ctx, a, m)
		}
		if err != nil {
			return m, err
		}
	}
}

// look makes a move that reads; if the move says so, it keeps the claim's leases alive first.
func (d *Driver) look(ctx context.Context, a *attempt, m move) (*answer, error) {
	if m.keeps {
		up, err := d.keepUp(ctx, a.k)
		switch {
		case errors.Is(err, driver.ErrSession):
			return &answer{of: m, leaseless: true}, nil
		case err != nil:
			return nil, err
		}
		a.up = up
	}
	var err error
	switch m.reads {
	case readsPlace:
		err = d.readPlace(ctx, a)
	case readsKey:
		err = d.readKey(ctx, a)
	case readsQueue:
		var r *clientv3.TxnResponse
		if r, err = d.wire.read(ctx, wholeQueue(a.folder)); err == nil {
			a.v = viewOf(r, 0)
		}
	}
	if err == nil {
		d.meet(a)
	}
	return nil, err
}

// viewOf returns the view that one of several answers gives.
func viewOf(r *clientv3.TxnResponse, i int) *view {
	return &view{q: queueOf(r.Responses[i].GetResponseRange().Kvs), seen: r.Header.Revision, term: r.Header.RaftTerm}
}

// readPlace reads the key of a claim, and the keys ahead of it. If the claim takes the whole lock, and a watch has kept its
// queue ahead up to date, readPlace reads only the head of the keys ahead: the claim holds if there is none.
func (d *Driver) readPlace(ctx context.Context, a *attempt) error {
	ticket, head := a.c.Ticket, false
	self := clientv3.OpGet(
		a.folder, clientv3.WithPrefix(), clientv3.WithMinCreateRev(ticket), clientv3.WithMaxCreateRev(ticket))
	if a.known {
		ticket, self = a.created, clientv3.OpGet(a.key)
	}
	before := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithMaxCreateRev(ticket - 1)}
	if a.k != nil {
		if head = d.watches.expect(a.k) && a.c.Weight == driver.All; head {
			oldest := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
			before = append(before, oldest, clientv3.WithLimit(1))
		}
	}
	r, err := d.wire.read(ctx, self, clientv3.OpGet(a.folder, before...))
	if err != nil {
		return err
	}
	a.v = viewOf(r, 1)
	a.v.head = head
	if e := only(r.Responses[0].GetResponseRange().Kvs); e != nil {
		a.v.q = append(a.v.q, *e)
	}
	return nil
}

// readKey reads the key of a claim again. The view keeps the keys ahead: since then, they can only have left or weigh less.
func (d *Driver) readKey(ctx context.Context, a *attempt) error {
	r, err := d.wire.read(ctx, clientv3.OpGet(a.key))
	if err != nil {
		return err
	}
	a.v = a.v.with(a.key, only(r.Responses[0].GetResponseRange().Kvs))
	a.v.term = r.Header.RaftTerm
	return nil
}

// with returns a copy of the view in which a key has this entry; nil removes the key.
func (v *view) with(key string, e *entry) *view {
	n := &view{}
	if v != nil {
		*n = *v
	}
	if n.q = slices.Clone(n.q); e == nil {
		n.q = slices.DeleteFunc(n.q, func(e entry) bool { return e.key == key })
	} else if at := keyAt(n.q, key); at >= 0 {
		n.q[at] = *e
	} else {
		n.q = append(n.q, *e)
	}
	return n
}

// meet notes the claim's entry in the view, if there is one. Keep-alives that were answered before the view was read count
// if they were of the leases that the entry names.
func (d *Driver) meet(a *attempt) {
	i := a.v.q.Find(a.c.ID)
	if i < 0 || !is(a.c, &a.v.q[i]) || a.known && (a.v.q[i].created != a.created || a.v.q[i].key != a.key) {
		return
	}
	a.k, a.fresh = d.claims.meet(a.c, a.k, &a.v.q[i]), false
	if a.up != nil && a.up.about(d.claims.leases(a.k)) {
		a.up.confirm(a.v.term)
	}
}

// change makes a move that is a transaction. While the outcome of a request about a claim's key is unknown, etcd may apply
// the request at any moment. Until then these leases serve no other claim: the lease in the key's name, the key's lease, and
// the leases that the request attaches. change sends nothing about a claim that has ended.
func (d *Driver) change(ctx context.Context, a *attempt, m move) (*answer, error) {
	answered := func() {}
	if m.changes != evicts {
		var err error
		if answered, err = d.claims.asks(a.k, a.about(m)...); err != nil {
			return nil, err
		}
	}
	r, err := d.send(ctx, a, m.txn, m.txn.together)
	if errors.Is(err, rpctypes.ErrNoSpace) && m.changes != evicts && d.untouched(ctx, a.k, m.modified) {
		err = driver.Refused(errFull)
		if m.changes == takesIt { // a full etcd removes keys: the refusal was meant for a put in the same batch
			r, err = d.send(ctx, a, m.txn, false)
		}
	}
	leaseless := err != nil && d.wire.revoked(ctx, err)
	if err == nil || leaseless || driver.NotApplied(d.wire.explain(ctx, err)) {
		answered()
	}
	switch {
	case leaseless:
		if m.changes == hangsIt {
			a.next.on.become(leaseOver)
			a.next, a.by = pair{}, wantsNone // the other lease in hand runs out
		}
		return &answer{of: m, leaseless: true}, nil
	case d.wire.tooMany(err, m.many):
		return nil, nil //nolint:nilnil // the goal decides again, with the lower limit
	case err != nil:
		return nil, err
	}
	d.changed(a, &m, r)
	return &answer{of: m, met: r.Succeeded}, nil
}

// about returns the leases of a transaction, except the lease in the key's name.
func (a *attempt) about(m move) (on []*lease) {
	switch m.changes {
	case hangsIt:
		if on = []*lease{a.next.on}; a.next.life != a.next.on && a.next.life.id != a.has.life.id {
			on = append(on, a.next.life)
		}
	case rewritesIt:
		on = []*lease{a.hangsOn}
	}
	return on
}

func (d *Driver) send(ctx context.Context, a *attempt, t *txn, together bool) (*clientv3.TxnResponse, error) {
	conditions, then, otherwise := t.compares(), operations(t.then), operations(t.otherwise)
	if together {
		return d.batch.do(ctx, a.folder, conditions, then, otherwise)
	}
	return d.wire.commit(ctx, conditions, then, otherwise)
}

// changed notes the answer to a transaction: the changes that it made, or the keys that kept it from making them.
func (d *Driver) changed(a *attempt, m *move, r *clientv3.TxnResponse) {
	was, list := a.v, m.txn.answers(r.Succeeded)
	if r.Succeeded {
		a.v = nil // the transaction changed the queue
	}
	if last := len(list) - 1; last >= 0 && list[last].verb == opList {
		a.v = viewOf(r, last)
	} else if last >= 0 && list[last].verb == opGet {
		a.v = was.with(list[last].key, only(r.Responses[last].GetResponseRange().Kvs))
		a.v.term = r.Header.RaftTerm
	}
	if !r.Succeeded {
		return
	}
	switch m.changes {
	case entersIt:
		if a.v == nil { // the put into an empty queue reads nothing: the queue is this key
			now := r.Header.Revision
			e := entry{value: a.value.whole(), key: a.key, created: now, modified: now, lease: a.has.life.id}
			a.v = &view{q: queue{e}, seen: now, term: r.Header.RaftTerm}
		}
		if i := a.v.q.Find(a.c.ID); i >= 0 && a.v.q[i].key == a.key {
			d.meet(a)
			a.fresh = true
		}
	case hangsIt:
		e := *m.next
		e.modified = r.Header.Revision
		a.v = was.with(e.key, &e)
		a.next.up.confirm(r.Header.RaftTerm)
		if !e.Left {
			d.claims.hang(a.k, a.next.life, a.next.on, e.modified)
		}
		a.next, a.by, a.fresh = pair{}, wantsNone, true
	case rewritesIt:
		d.claims.written(a.k, r.Header.Revision)
	}
}

// untouched reports whether the key of a claim certainly has the same revision as before. A full etcd refuses a transaction
// in the same words whether it applied it or not, and answers only once this is decided. So the key shows the outcome.
func (d *Driver) untouched(ctx context.Context, k *localClaim, was int64) bool {
	r, err := d.wire.read(ctx, clientv3.OpGet(k.key))
	if err != nil {
		return false
	}
	var now int64
	if e := only(r.Responses[0].GetResponseRange().Kvs); e != nil {
		now = e.modified
	}
	return now == was
}

// errFull says that a full etcd did not apply a transaction.
var errFull = errors.New(fullText)
