package shard

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A name that moves is held when it is held both in its old store and in its new one. All clients enter in this order, so
// nobody holds the second store and waits for the first.

// A dualHold is this client's knowledge of a claim of a moving name, beyond its ticket, which comes from the old store.
type dualHold struct {
	entered bool      // it may be in the new store
	ticket  int64     // in the new store; 0 if unknown
	holds   bool      // in both stores, by the last answer
	leaving bool      // it was asked to leave, so a claim that a renewal misses has left
	over    time.Time // when nothing is left of it without further calls
}

// there returns the claim as the new store knows it. Of another client's claim it is only known that it has entered, if it
// has.
func (x *dualHold) there(c *driver.Claim) *driver.Claim {
	second := *c
	if x != nil {
		second.Ticket = x.ticket
	}
	return &second
}

// dualHolds are the dualHolds of one client.
type dualHolds struct {
	mu   sync.Mutex // guards the fields below
	of   map[string]*dualHold
	most int // how many there may be before entries that are over are removed
}

const fewDualHolds = 64

// find returns a copy of a claim's entry, or nil.
func (k *dualHolds) find(c *driver.Claim) *dualHold {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.of[c.ID]
	if x == nil {
		return nil
	}
	known := *x
	return &known
}

// note keeps the entry of a claim.
func (k *dualHolds) note(c *driver.Claim, x dualHold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.of[c.ID] == nil && len(k.of) >= max(k.most, fewDualHolds) {
		for id, other := range k.of {
			if now.After(other.over) {
				delete(k.of, id)
			}
		}
		k.most = 2 * len(k.of)
	}
	x.over = now.Add(2 * (max(c.TTL, c.Wait) + c.Delay))
	x.leaving = x.leaving || k.of[c.ID] != nil && k.of[c.ID].leaving
	k.of[c.ID] = &x
}

// leave notes that a claim was asked to leave, and returns a copy of its entry, or nil.
func (k *dualHolds) leave(c *driver.Claim) *dualHold {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.of[c.ID]
	if x == nil {
		return nil
	}
	x.leaving = true
	known := *x
	return &known
}

func (k *dualHolds) forget(c *driver.Claim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, c.ID)
}

// enterBoth enters a claim into both stores, into the second when it holds in the first.
func (s *shards) enterBoth(ctx context.Context, from, to *store, c *driver.Claim) (driver.Place, error) {
	known := s.dualHolds.find(c)
	ours := known != nil || c.Ticket == 0 // it entered by this client, or enters now
	x := dualHold{}
	if known != nil {
		x = *known
	}
	first, err := from.Enter(ctx, c)
	switch {
	case errors.Is(err, driver.ErrGone):
		s.dualHolds.forget(c)
		if x.entered {
			_ = s.withdraw(ctx, to, known.there(c)) // or it runs out
		}
		return first, err
	case err != nil:
		return first, from.says(err)
	case !first.Holds:
		if first.Ticket != 0 && ours {
			s.dualHolds.note(c, x)
		}
		return first, nil
	}
	return s.enterSecond(ctx, from, to, c, x, first, ours)
}

// enterSecond enters a claim that holds in the first store into the second. It notes the claim if it is this client's.
func (s *shards) enterSecond(
	ctx context.Context, from, to *store, c *driver.Claim, x dualHold, first driver.Place, ours bool,
) (driver.Place, error) {
	second := *c
	if ours {
		second.Ticket = x.ticket
	}
	if x.entered, x.holds = true, false; ours {
		s.dualHolds.note(c, x)
	}
	p, err := to.Enter(ctx, &second)
	if err != nil && !ours && errors.Is(err, driver.ErrGone) {
		return driver.Place{}, err // its own client may be entering it there
	}
	if err != nil {
		return driver.Place{}, s.halfway(ctx, from, to, c, err)
	}
	if p.Ticket == 0 {
		if err := s.withdraw(ctx, from, c); err != nil {
			return driver.Place{}, driver.Unknown(from.says(err))
		}
		s.dualHolds.forget(c)
		return p, nil
	}
	x.ticket, x.holds = p.Ticket, p.Holds
	s.dualHolds.note(c, x)
	p.Ticket, p.TTL = first.Ticket, min(first.TTL, p.TTL)
	if p.Holds {
		p.Ahead = first.Ahead
	}
	return p, nil
}

// halfway handles a claim that holds in the first store and was not taken by the second. If another try is useless, it
// removes the claim from the first. Otherwise, or if that fails, the outcome is unknown, since a part of the claim is left.
func (s *shards) halfway(ctx context.Context, from, to *store, c *driver.Claim, err error) error {
	if driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) {
		return driver.Unknown(to.says(err))
	}
	s.dualHolds.forget(c)
	if e := s.withdraw(ctx, from, c); e != nil {
		return driver.Unknown(to.says(err))
	}
	return to.says(err)
}

// withdrawWithin bounds the request that removes a failed claim from one store.
const withdrawWithin = time.Second

// withdraw removes a claim from one store, even if the caller has given up. A missing claim is no error.
func (s *shards) withdraw(ctx context.Context, st *store, c *driver.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawWithin)
	defer cancel()
	if err := st.Leave(ctx, &driver.Release{Claim: c}); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

// awaitBoth waits in the store where the claim does not hold yet. Holding there does not suffice, so the claim then enters
// again.
func (s *shards) awaitBoth(ctx context.Context, from, to *store, c *driver.Claim) (driver.Place, error) {
	at, claim := from, c
	if x := s.dualHolds.find(c); x != nil && x.entered {
		at, claim = to, x.there(c)
	}
	p, err := at.Await(ctx, claim)
	if err != nil || !p.Holds {
		return p, at.says(err)
	}
	return driver.Place{}, nil
}

// bothRenewed combines the answers of two stores: the shorter lease, or the error of either. Somebody may have asked for the
// lock in either.
func (s *shards) bothRenewed(from, to *store, c *driver.Claim, first, second driver.Renewal) driver.Renewal {
	x := s.dualHolds.find(c)
	lost, stands, left := first.Err, to, x.there(c)
	if !errors.Is(lost, driver.ErrGone) {
		lost, stands, left = second.Err, from, (*dualHold)(nil).there(c)
	}
	switch {
	case errors.Is(lost, driver.ErrGone):
		if x != nil && !x.leaving {
			s.dualHolds.forget(c)
			s.life.Go(func() { _ = s.withdraw(s.life.Context(), stands, left) }) // or it runs out
		}
		return driver.Renewal{Err: lost}
	case first.Err == nil && second.Err == nil:
	case first.Err != nil && second.Err != nil && driver.OutcomeOf(first.Err) == driver.OutcomeOf(second.Err):
		return first
	default: // one of them may have been renewed, or was
		return driver.Renewal{Err: driver.Unknown(cmp.Or(first.Err, second.Err))}
	}
	if x != nil {
		s.dualHolds.note(c, *x)
	}
	return driver.Renewal{TTL: min(first.TTL, second.TTL), Asks: first.Asks + second.Asks}
}

// leaveBoth removes a claim from both stores. A kept claim is kept in both if it held in both.
func (s *shards) leaveBoth(ctx context.Context, from, to *store, l *driver.Release) error {
	c := l.Claim
	x := s.dualHolds.leave(c)
	keep := l.Keep
	if x != nil && !x.holds {
		keep = 0
	}
	var second error
	if x == nil || x.entered {
		second = to.Leave(ctx, &driver.Release{Claim: x.there(c), Keep: keep})
		if errors.Is(second, driver.ErrGone) && (x == nil || !x.holds) {
			second = nil // it may never have entered there
		}
	}
	first := from.Leave(ctx, &driver.Release{Claim: c, Keep: keep})
	switch gone := func(err error) bool { return err == nil || errors.Is(err, driver.ErrGone) }; {
	case !gone(first):
		return driver.Unknown(from.says(first))
	case !gone(second):
		return driver.Unknown(to.says(second))
	}
	s.dualHolds.forget(c)
	if first != nil {
		return first
	}
	return second
}
