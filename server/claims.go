package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// No handler sends Leave because a connection or a wait has ended: by then the client may have asked another server, and
// hold. The claim of a client that is gone ends with its lease.

// A refusal is the error of a request that reaches no driver.
type refusal struct {
	code string
	error
}

func (e *refusal) Unwrap() error { return e.error }

// invalid returns the error of a request that breaks the contract.
func invalid(err error) error { return &refusal{api.CodeInvalid, err} }

// errEnding ends a wait when the server ends.
var errEnding = driver.Unreachable(driver.Unsent(errors.New("the lock service is ending; ask another one")))

// begin begins a call about a claim: see calls.begin.
func (s *Server) begin(ctx context.Context, c *driver.Claim, cut func()) (end func(), err error) {
	return s.calls.begin(ctx, claimKey{c.Name, c.ID}, cut)
}

func (s *Server) enter(ctx context.Context, q *api.EnterRequest) (*api.PlaceAnswer, error) {
	if err := q.Claim.CheckLeased(); err != nil {
		return nil, invalid(err)
	}
	who := callerOf(ctx)
	if err := who.mustClaim(q.Claim.Name, q.Claim.Weight, q.Claim.Capacity); err != nil {
		return nil, err
	}
	c, err := who.claim(q.Claim.Driver())
	if err != nil {
		return nil, err
	}
	if err := s.limits.enters(who, &q.Claim); err != nil {
		return nil, err
	}
	c = s.limits.shorten(c)
	end, err := s.begin(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := s.same(ctx); err != nil { // the turn may have come late
		return nil, err
	}
	p, err := s.put(ctx, c)
	s.identity.heed(err) // before the next turn
	if c.Ticket != 0 && errors.Is(err, driver.ErrGone) {
		err = s.rid(ctx, c, err)
	}
	if err != nil {
		return nil, err
	}
	if p.Holds {
		who.took(c, p.Ticket)
	}
	return &api.PlaceAnswer{Place: api.NewPlace(who.place(c.Name, p)), Replica: s.replica}, nil
}

// rid removes the remains of a late Enter. That Enter had no ticket yet, so after the claim was gone it entered again, and some
// stores find it by no other ticket than its own. The client learns that its claim is gone only when nothing of it remains.
func (s *Server) rid(ctx context.Context, c *driver.Claim, gone error) error {
	if s.sole != nil {
		if err := s.sole.why(ctx); err != nil { // another server may have entered the claim
			return driver.Unknown(err)
		}
	}
	late := *c
	late.Ticket = 0
	err := s.d.Leave(ctx, &driver.Release{Claim: &late})
	if err == nil || errors.Is(err, driver.ErrGone) {
		return gone
	}
	return driver.Unknown(fmt.Errorf("the claim is gone, and what may be left of it was not removed: %w", err))
}

func (s *Server) await(ctx context.Context, q *api.AwaitRequest) (*api.PlaceAnswer, error) {
	if err := q.Claim.Check(); err != nil {
		return nil, invalid(err)
	}
	if q.Within <= 0 {
		return nil, invalid(errors.New("within_ns must say how long to wait"))
	}
	who := callerOf(ctx)
	mayHave := func(who *caller) error { return who.mustHave(q.Claim.Name) }
	if err := mayHave(who); err != nil {
		return nil, err
	}
	if s.ending.Err() != nil {
		return nil, errEnding
	}
	c, err := who.claim(q.Claim.Driver())
	if err != nil {
		return nil, err
	}
	over, err := s.limits.wait(who, q.Claim.Name, soon)
	if err != nil {
		return nil, err
	}
	defer over()
	wait, cancel := context.WithTimeout(ctx, min(q.Within, api.MaxAwait))
	defer cancel()
	stop := context.AfterFunc(s.ending, cancel)
	defer stop()
	var p driver.Place
	end, err := s.begin(wait, c, cancel)
	if err == nil {
		defer end()
		p, err = s.hearTurn(wait, c, q.Replica)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil: // the client is gone
		return nil, err
	case s.ending.Err() != nil:
		return nil, errEnding
	case wait.Err() != nil:
		p = driver.Place{} // no news: the time is over, or a newer request cut the wait short
	default:
		return nil, err
	}
	if p.Holds {
		if err := who.still(mayHave); err != nil {
			return nil, err
		}
		who.took(c, p.Ticket)
	}
	return &api.PlaceAnswer{Place: api.NewPlace(who.place(c.Name, p)), Replica: s.replica}, nil
}

// hearTurn waits for the turn of a claim. If the store notifies another replica, this one adopts the claim first.
func (s *Server) hearTurn(ctx context.Context, c *driver.Claim, replica string) (driver.Place, error) {
	if s.adopter != nil && replica != s.replica && c.Ticket != 0 {
		p, err := s.adopter.Adopt(ctx, c)
		switch {
		case errors.Is(err, driver.ErrGone):
			return driver.Place{}, nil // the next Enter gets the error
		case err != nil:
			return driver.Place{}, err
		case p.Holds:
			s.metrics.Awaited(c, &p, nil)
			return driver.Place{Ticket: p.Ticket, Holds: true}, nil
		}
	}
	return s.d.Await(ctx, c)
}

// renew bypasses calls: a renewal may run while the claim awaits or leaves.
func (s *Server) renew(ctx context.Context, q *api.RenewRequest) (*api.RenewAnswer, error) {
	if n := len(q.Claims); n == 0 || n > api.MaxClaims {
		return nil, invalid(fmt.Errorf("a renewal has from 1 to %d claims; this one has %d", api.MaxClaims, n))
	}
	var (
		a     = &api.RenewAnswer{Renewals: make([]api.Renewal, len(q.Claims))}
		valid []*driver.Claim
		index []int
		who   = callerOf(ctx)
	)
	for i := range q.Claims {
		c := &q.Claims[i]
		var claim *driver.Claim
		err := c.CheckLeased()
		if err != nil {
			err = invalid(err)
		} else if err = who.mustClaim(c.Name, c.Weight, c.Capacity); err == nil {
			claim, err = who.claim(c.Driver())
		}
		if err != nil {
			a.Renewals[i].Error = errorOf(err)
			continue
		}
		valid, index = append(valid, s.limits.shorten(claim)), append(index, i)
	}
	if len(valid) > 0 {
		renewals, err := s.extend(ctx, valid)
		if err != nil {
			return nil, err
		}
		s.alerts.renewed(valid, renewals)
		for i, r := range renewals {
			a.Renewals[index[i]] = api.NewRenewal(r)
			s.unwrap(a.Renewals[index[i]].Error)
		}
	}
	return a, nil
}

func (s *Server) leave(ctx context.Context, q *api.LeaveRequest) (*api.LeaveAnswer, error) {
	if err := q.Claim.Check(); err != nil {
		return nil, invalid(err)
	}
	if q.Keep < 0 || q.Keep > s.limits.longest {
		return nil, invalid(fmt.Errorf("keep_ns is from 0 to %v", s.limits.longest))
	}
	who := callerOf(ctx)
	if err := who.mustHave(q.Claim.Name); err != nil {
		return nil, err
	}
	c, err := who.claim(q.Claim.Driver())
	if err != nil {
		return nil, err
	}
	end, err := s.begin(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	defer end()
	s.alerts.left(c)
	err = s.d.Leave(ctx, &driver.Release{Claim: c, Keep: q.Keep})
	if c.Ticket != 0 && errors.Is(err, driver.ErrGone) {
		err = s.rid(ctx, c, err)
	}
	if err != nil {
		return nil, err
	}
	who.did(Released, c, c.Ticket)
	return &api.LeaveAnswer{Left: true}, nil
}
