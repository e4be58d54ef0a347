package server

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// A queue answers GET.
type queue struct {
	Name   string    `json:"name"`
	Of     int64     `json:"of,omitempty"` // the permits of the name; 0 without permits, or without claims
	Claims []*member `json:"claims"`       // in the order of the queue: holders, then waiters
}

// A member is a claim of a queue, as people see it.
type member struct {
	Token     string `json:"token,omitempty"`
	Holds     bool   `json:"holds"`
	Shared    bool   `json:"shared,omitempty"`
	Permits   int64  `json:"permits,omitempty"` // taken; 0 unless the name has permits
	Owner     string `json:"owner,omitempty"`
	Program   string `json:"program,omitempty"`
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Principal string `json:"principal,omitempty"`
	Value     string `json:"value,omitempty"` // of a candidate, or the text of another program's claim
	Since     int64  `json:"since_ms"`
	Remaining int64  `json:"remaining_ms,omitempty"` // of its lease, if the store reports it
}

// showLock answers GET with the holders and the waiters. It shows no handle.
func (s *Server) showLock(ctx context.Context, q *lockRequest) (*queue, *failure) {
	if s.lister == nil {
		return nil, failed(driver.ErrUnsupported)
	}
	if err := callerOf(ctx).must(q.name, Read); err != nil {
		return nil, failed(err)
	}
	over, err := s.limits.look(ctx, callerOf(ctx))
	if err != nil {
		return nil, failed(err)
	}
	defer over()
	all, err := s.lister.List(ctx, &driver.Query{Name: q.name})
	if err != nil {
		return nil, failed(err)
	}
	a := &queue{Name: q.name, Claims: []*member{}}
	for _, l := range all {
		if l.Capacity != driver.All {
			a.Of = l.Capacity
		}
		for i := range l.Claims {
			a.Claims = append(a.Claims, s.member(callerOf(ctx).info(l.Claims[i]), l.Capacity))
		}
	}
	return a, nil
}

// member returns a claim, as clients see it, of a queue with a capacity; 0 means an unknown capacity.
func (s *Server) member(c driver.ClaimInfo, capacity int64) *member {
	h := holderOf(&c)
	m := &member{
		Holds: c.Holds, Owner: h.Owner, Program: h.Program, Host: h.Host, PID: h.PID, Reason: h.Reason, Principal: h.Principal,
		Value: h.Value, Since: c.Since.Milliseconds(), Remaining: c.Remaining.Milliseconds(),
	}
	if c.Ticket != 0 {
		m.Token = s.token(c.Ticket)
	}
	switch {
	case capacity == driver.All:
		m.Shared = c.Weight < capacity
	case capacity > 0:
		m.Permits = c.Weight
	}
	return m
}
