package claims

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// Detach ends the hold here but leaves its claim in the store, with its whole ttl from now on, and returns it.
func (s *Share) Detach(ctx context.Context) (*driver.Claim, error) {
	h := s.hold
	n := h.c.n
	n.shard.mu.Lock()
	if o := s.over.Load(); o != nil {
		n.shard.mu.Unlock()
		return nil, o.err
	}
	now := n.enterEvent(n.shard.k.clock.now())
	v := n.engine.Detach(now, h.slot)
	if v.Code == protocol.Pending {
		h.more().detached = make(chan protocol.Verdict, 1)
	}
	var t todo
	n.finish(now, &t)
	n.shard.mu.Unlock()
	if v.Code == protocol.Pending {
		n.shard.k.first(&t, ctx)
		v = <-h.rare.Load().detached // the request ends with ctx, and what came of it is told
	} else {
		t.do()
	}
	return s.given(&v, func(v *protocol.Verdict) error { return n.shard.k.errorOnce(ctx, v, h.c.terms.Load().TTL) })
}

// Pin returns the claim of the hold, which no other turn of this process will be on.
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
	return s.given(&v, n.shard.k.errorOf)
}

// given returns the claim of a hold that its caller was given, or why it was not; errorOf explains what is not about the hold.
func (s *Share) given(v *protocol.Verdict, errorOf func(*protocol.Verdict) error) (*driver.Claim, error) {
	switch {
	case v.Code == protocol.OK:
		claim := new(driver.Claim)
		s.hold.c.describe(claim)
		return claim, nil
	case v.Code == protocol.Lost && s.over.Load() != nil:
		return nil, s.over.Load().err
	case v.Code == protocol.Lost:
		return nil, ErrShared // it is being detached
	}
	return nil, errorOf(v)
}

// Attach takes a claim up that was detached, with the token that it had.
func (k *Keeper) Attach(ctx context.Context, claim *driver.Claim, token int64, maxHold time.Duration) (*Share, error) {
	terms := &protocol.Terms{
		Weight: claim.Weight, Capacity: claim.Capacity, TTL: claim.TTL, Delay: claim.Delay,
		Owner: claim.Owner, Record: claim.Record,
	}
	at := k.place(claim.Name)
	s := at.shard
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, driver.ErrClosed
	}
	n := at.name(claim.Name)
	now := n.enterEvent(k.clock.now())
	slot := n.engine.Attach(now, terms, token, maxHold)
	c := n.newClaim(slot, claim.ID, terms)
	attached := make(chan attachment, 1)
	s.attaching[c] = attached
	var t todo
	n.finish(now, &t)
	s.mu.Unlock()
	k.first(&t, ctx)
	a := <-attached
	if a.share != nil {
		return a.share, nil
	}
	return nil, k.errorOnce(ctx, &a.verdict, claim.TTL)
}

// errorOnce is errorOf for a request that is sent once, and ends with its caller's context.
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

// An attachment is what came of taking a claim up.
type attachment struct {
	share   *Share // nil if it could not be
	verdict protocol.Verdict
}
