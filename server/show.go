package server

import (
	"context"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
)

// A queue answers GET.
type queue struct {
	Name   string    `json:"name"`
	Of     int64     `json:"of,omitempty"` // how many permits the name has
	Claims []*member `json:"claims"`       // in the order of the queue: those that hold, then those that wait
}

// A member is a claim of a queue, for people.
type member struct {
	Token     string `json:"token,omitempty"`
	Holds     bool   `json:"holds"`
	Shared    bool   `json:"shared,omitempty"`
	Permits   int64  `json:"permits,omitempty"` // of a name that has permits
	Owner     string `json:"owner,omitempty"`
	Program   string `json:"program,omitempty"`
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Value     string `json:"value,omitempty"` // of a candidate, or all that another program's claim says
	Since     int64  `json:"since_ms"`
	Remaining int64  `json:"remaining_ms,omitempty"` // of its lease, if the store tells
}

// showLock shows who holds a lock and who waits for it. It shows no handle.
func (s *Server) showLock(ctx context.Context, q *lockRequest) (any, *failure) {
	if s.lister == nil {
		return nil, failed(driver.ErrUnsupported)
	}
	if err := callerOf(ctx).must(q.name, Read); err != nil {
		return nil, failed(err)
	}
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
			a.Claims = append(a.Claims, s.member(&l.Claims[i], l.Capacity))
		}
	}
	return a, nil
}

// member is a claim of a queue with a capacity; 0 if the capacity is not known.
func (s *Server) member(c *driver.ClaimInfo, capacity int64) *member {
	h := record.Read(c.Record)
	m := &member{
		Holds: c.Holds, Owner: h.Owner, Program: h.Program, Host: h.Host, PID: h.PID, Reason: h.Reason, Value: h.Value,
		Since: c.Since.Milliseconds(), Remaining: c.Remaining.Milliseconds(),
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
