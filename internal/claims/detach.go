package claims

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
)

// ErrShared is why a hold cannot be detached that others in the process share.
var ErrShared = errors.New("the claim is shared inside this process")

// Detach ends the hold here but leaves its claim in the store, with its whole ttl from now on, and returns it.
func (h *Hold) Detach(ctx context.Context) (*driver.Claim, error) {
	s, k := h.seat, h.seat.k
	k.mu.Lock()
	h.look(k.clock.now())
	switch {
	case h.over != nil:
		defer k.unlock()
		return nil, h.over
	case h.refs > 1 || len(s.holds) > 1:
		defer k.unlock()
		return nil, ErrShared
	}
	s.frozen = true // no more turns, no more renewals but ours
	renewing := s.renewing
	k.unlock()
	if renewing != nil {
		<-renewing
	}
	r := k.d.Renew(ctx, []*driver.Claim{&s.claim})[0]
	k.mu.Lock()
	defer k.unlock()
	now := k.clock.now()
	switch {
	case h.over != nil:
		return nil, h.over
	case errors.Is(r.Err, driver.ErrGone):
		s.lose(goneFor(r.Err), now)
		return nil, h.over
	case r.Err != nil:
		s.frozen = false
		k.renewals.fix(s)
		return nil, r.Err
	}
	h.end(ErrReleased)
	s.remove(h)
	s.depart()
	s.gate.seats--
	s.gone()
	s.gate.move(now)
	return &s.claim, nil
}

// Attach takes a claim up that was detached, with the token that it had.
func (k *Keeper) Attach(ctx context.Context, claim *driver.Claim, token int64) (*Hold, error) {
	// Its turns are over: the token is the one that was given.
	s := &seat{k: k, index: -1, turn: Turns, stage: held, claim: *claim}
	s.claim.Client, s.claim.Wait = k.id, min(claim.TTL, waiterTTL)
	sent := k.clock.now()
	r := k.d.Renew(ctx, []*driver.Claim{&s.claim})[0]
	if errors.Is(r.Err, driver.ErrGone) {
		return nil, &Lost{Reason: goneFor(r.Err)}
	}
	if r.Err != nil {
		return nil, r.Err
	}
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return nil, driver.ErrClosed
	}
	s.gate = k.gate(&Terms{
		Name: claim.Name, Weight: claim.Weight, Capacity: claim.Capacity, TTL: claim.TTL, Delay: claim.Delay,
		Owner: claim.Owner, Record: claim.Record,
	})
	s.gate.seats++
	s.confirm(sent, r.TTL)
	h := &Hold{seat: s, token: token, since: sent, refs: 1}
	s.add(h)
	k.renewals.fix(s)
	return h, nil
}
