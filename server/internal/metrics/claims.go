package metrics

import (
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	maxClaims  = 1 << 16     // claims that are followed at a time: about 20 MB
	slack      = time.Second // how long after its lease a claim still counts: a renewal may be under way
	sweepAgain = time.Second
)

// claims follow the claims from their first request at this service to their end. Each request is also an answer for the
// client, who may send the next to another replica or never: so a claim of which the service hears no more until its lease has
// ended is gone.
type claims struct {
	mu    sync.Mutex // guards the fields below, also in the claims
	of    map[claimKey]*claim
	swept time.Time
}

// A claimKey names a claim of the store.
type claimKey struct{ name, id string }

// A claim is followed:
//
//	begun ──entered──► waiting ──granted──► holding ──► end
//	  │                   └──► end             ▲
//	  └──found again──► strange ───────────────┘ by Await
//	                       └──► end
//
// A strange claim began at another replica, or before this service: it counts only if it is lost. It may wait, but most hold,
// since a claim waits for a shorter time. The end is the claim's release, its loss, or the end of its lease.
type claim struct {
	class string
	state state
	since time.Time // when the state began; of a waiting claim, when its first request was sent
	until time.Time // when its lease ends, as far as is known
	parts bool      // a Leave is under way, and only its answer ends the claim
}

type state int

const (
	begun state = iota // only within a call
	waiting
	holding
	strange
)

// Entered takes the answer to an Enter, which was sent at a time for a claim with or without a ticket.
func (s *Service) Entered(c *driver.Claim, ticket int64, sent time.Time, p *driver.Place, err error) {
	switch {
	case err != nil:
		s.failed(c, err)
	case p.Ticket == 0 && !p.Holds: // it only tried
	default:
		s.found(c, ticket == 0, sent, p)
	}
}

// found notes the place of a claim. A new one had no ticket in its request.
func (s *Service) found(c *driver.Claim, isNew bool, sent time.Time, p *driver.Place) {
	class := s.classOf(c.Name)
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	f := s.followLocked(c, class)
	switch {
	case f == nil:
		return
	case f.state == begun && isNew:
		f.state, f.since = waiting, sent // for as long as the request took
		if !p.Holds {
			s.waits.Add(1, class)
		}
	case f.state == begun:
		f.state = strange
	}
	f.until = sent.Add(p.TTL)
	if p.Holds && f.state == waiting {
		s.grantLocked(f)
	}
}

// Awaited takes a place from Await: a claim that holds began to do so while it waited here.
func (s *Service) Awaited(c *driver.Claim, p *driver.Place, err error) {
	if err != nil {
		s.failed(c, err)
		return
	}
	if !p.Holds {
		return
	}
	class := s.classOf(c.Name)
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	f := s.followLocked(c, class)
	if f == nil || f.state == holding {
		return
	}
	if f.state == begun {
		f.until = time.Now().Add(c.Wait)
	}
	s.grantLocked(f)
}

// followLocked returns a claim that is followed, and begins to follow it. It returns nil if there are too many.
func (s *Service) followLocked(c *driver.Claim, class string) *claim {
	key := claimKey{c.Name, c.ID}
	if f := s.claims.of[key]; f != nil {
		return f
	}
	if len(s.claims.of) >= maxClaims {
		if s.sweepLocked(time.Now()); len(s.claims.of) >= maxClaims {
			s.unfollowed.Add(1)
			return nil
		}
	}
	f := &claim{class: class}
	s.claims.of[key] = f
	return f
}

// grantLocked notes that a claim holds from now on.
func (s *Service) grantLocked(f *claim) {
	now := time.Now()
	if f.state == waiting {
		s.wait.Observe(now.Sub(f.since).Seconds(), f.class)
	}
	f.state, f.since = holding, now
	s.held.Add(1, f.class)
}

// Renewed takes the answers to a renewal that was sent at a time.
func (s *Service) Renewed(cs []*driver.Claim, sent time.Time, renewals []driver.Renewal) {
	for i, r := range renewals {
		if r.Err != nil {
			s.failed(cs[i], r.Err)
		} else {
			s.found(cs[i], false, sent, &driver.Place{TTL: r.TTL})
		}
	}
}

// Leaves notes that a Leave is sent. A renewal that is under way may find the claim gone: no loss.
func (s *Service) Leaves(c *driver.Claim) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if f := s.claims.of[claimKey{c.Name, c.ID}]; f != nil {
		f.parts = true
	}
}

// Left takes the answer to a Leave. If its outcome is unknown, the client has given up the claim all the same: the next Leave may
// find it gone, and that is no loss.
func (s *Service) Left(c *driver.Claim, err error) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	key := claimKey{c.Name, c.ID}
	f := s.claims.of[key]
	if f == nil {
		return
	}
	f.parts = false
	if reason := reasonOf(err); err == nil || reason != "" || !driver.NotApplied(err) {
		s.endLocked(key, f, reason)
	}
}

// failed takes an error of a request about a claim. Only a claim that is gone has ended.
func (s *Service) failed(c *driver.Claim, err error) {
	reason := reasonOf(err)
	if reason == "" {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	key := claimKey{c.Name, c.ID}
	if f := s.claims.of[key]; f != nil && !f.parts {
		s.endLocked(key, f, reason)
	}
}

// reasonOf returns the reason of a claim's end; "" if the error does not say that the claim has ended.
func reasonOf(err error) string {
	if _, ok := errors.AsType[*driver.BrokenError](err); ok {
		return broken
	}
	switch {
	case errors.Is(err, driver.ErrSession):
		return session
	case errors.Is(err, driver.ErrGone):
		return gone
	}
	return ""
}

// endLocked ends a claim for a reason; "" if its client has released it.
func (s *Service) endLocked(key claimKey, f *claim, reason string) {
	delete(s.claims.of, key)
	switch f.state {
	case waiting:
		s.givenUp.Add(1, f.class)
		return
	case strange:
		if reason == "" || reason == silent {
			return
		}
	case holding:
		s.held.Add(-1, f.class)
		if reason != silent { // when it ended is not known
			s.hold.Observe(time.Since(f.since).Seconds(), f.class)
		}
	}
	if reason != "" {
		s.losses.Add(1, f.class, reason)
	}
}

// sweep ends the claims whose leases have ended.
func (s *Service) sweep(now time.Time) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.sweepLocked(now)
}

func (s *Service) sweepLocked(now time.Time) {
	if now.Sub(s.claims.swept) < sweepAgain {
		return
	}
	s.claims.swept = now
	for key, f := range s.claims.of {
		if now.Sub(f.until) > slack {
			s.endLocked(key, f, silent)
		}
	}
}
