package claims

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// Detach ends the hold here but leaves its claim in the store, with its whole TTL from now on, and returns the claim.
func (s *Share) Detach(ctx context.Context) (*driver.Claim, error) {
	claim, err := s.Pin() // a claim for another process has no more turns here
	if err != nil {
		return nil, err
	}
	h := s.hold
	n := h.c.n
	r, err := n.shard.renewApart(ctx, claim)
	if err != nil {
		return nil, err
	}
	n.shard.mu.Lock()
	if o := s.over.Load(); o != nil {
		n.shard.mu.Unlock()
		return nil, o.err
	}
	now := n.enterEvent(n.shard.k.clock.recent())
	v := n.engine.Detach(now, h.slot, &r)
	var t todo
	if v.Code == protocol.OK {
		h.endLocked(ErrReleased, &t)
		n.slots[h.slot].turn = nil
	}
	n.finishLocked(now, &t)
	n.shard.mu.Unlock()
	t.do()
	return claim, s.parted(ctx, &v)
}

// Pin returns the claim of the hold. This process begins no other turn on it.
func (s *Share) Pin() (*driver.Claim, error) {
	h := s.hold
	n := h.c.n
	n.shard.mu.Lock()
	if o := s.over.Load(); o != nil {
		n.shard.mu.Unlock()
		return nil, o.err
	}
	now := n.enterEvent(n.shard.k.clock.now())
	v := n.engine.Pin(now, h.slot)
	n.finishOwn(now)
	claim := &driver.Claim{Ticket: h.token / engine.Turns}
	h.c.describe(claim)
	return claim, s.parted(context.Background(), &v)
}

// parted returns the error for a verdict on Pin or Detach.
func (s *Share) parted(ctx context.Context, v *protocol.Verdict) error {
	if o := s.over.Load(); v.Code == protocol.Lost && o != nil {
		return o.err
	}
	return s.hold.c.n.shard.k.errorOnce(ctx, v, s.hold.c.terms.Load().TTL)
}

// Attach takes up a detached claim, with the number of its grant. fenced says whether that grant had a fencing token.
func (k *Keeper) Attach(
	ctx context.Context, claim *driver.Claim, number int64, fenced bool, maxHold time.Duration,
) (*Share, error) {
	terms := &protocol.Terms{
		Weight: claim.Weight, Capacity: claim.Capacity, TTL: claim.TTL, Delay: claim.Delay,
		Owner: claim.Owner, Record: claim.Record,
	}
	claim.Client, claim.Wait = k.id, terms.Wait()
	at := k.place(claim.Name)
	s := at.shard
	r, err := s.renewApart(ctx, claim)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, driver.ErrClosed
	}
	n := at.name(claim.Name)
	now := n.enterEvent(k.clock.recent())
	slot, v := n.engine.Attach(now, terms, number, maxHold, &r)
	var share *Share
	if v.Code == protocol.OK {
		in, _, _ := n.engine.Turn(slot)
		c := n.newClaim(in, claim.ID, terms)
		c.fenced.Store(fenced && k.fences())
		share = n.begin(new(Hold), slot)
	}
	var t todo
	n.finishLocked(now, &t)
	s.mu.Unlock()
	t.do()
	return share, k.errorOnce(ctx, &v, claim.TTL)
}

// renewApart renews a claim, by a request without a part of the engines. The request ends with ctx, by Close, and after
// Patience.
func (s *shard) renewApart(ctx context.Context, claim *driver.Claim) (r protocol.Reply, err error) {
	k := s.k
	r.Sent = k.clock.now()
	c := new(call)
	c.begin(&k.clock, protocol.After(r.Sent, k.conf.Patience), ctx)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return r, driver.ErrClosed
	}
	s.apart[c] = true
	k.clears.Add(1)
	s.mu.Unlock()
	answer := k.d.Renew(c, []*driver.Claim{claim})[0]
	c.finish()
	if r.TTL = answer.TTL; answer.Err != nil {
		r.Outcome, r.Err = outcomeOf(answer.Err), failure(answer.Err)
	}
	k.clock.now() // notes a suspension before the answer
	s.mu.Lock()
	delete(s.apart, c)
	k.clears.Done()
	s.mu.Unlock()
	return r, nil
}

// errorOnce is errorOf for a request that is sent once and ends with its caller's context.
func (k *Keeper) errorOnce(ctx context.Context, v *protocol.Verdict, ttl time.Duration) error {
	switch {
	case v.Code != protocol.Unreachable:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case v.Err != nil && !errors.Is(v.Err, protocol.ErrSilent):
		return driver.Unreachable(v.Err)
	}
	return k.dated(k.errorOf(v), ttl)
}
