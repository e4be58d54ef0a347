package drivertest

import (
	"fmt"
	"slices"

	"github.com/stilelock/stile/driver"
)

// A Several is a store of several servers that nobody else uses. Any server may be out of reach for a while.
type Several struct {
	// Open connects one more client to the store. The suite closes the client.
	Open func() driver.Driver

	// Servers is the number of servers. Spare is how many of them may be out of reach at once while all names can still be
	// locked: 0 means that each name is on one server, and does not need the others.
	Servers, Spare int

	// Down puts a server out of reach of all clients, and Up ends that. The server loses nothing.
	Down, Up func(server int)
}

var oneDownCases = []Case{
	{"OneDown", "A server that is out of reach costs the claims on it alone, and a claim that leaves as soon as it is back is out of it too.",
		0, oneDown},
}

func oneDown(r *run) {
	if r.store.Several == nil {
		return
	}
	s := r.store.Several(r)
	a, b := s.Open(), s.Open()
	r.Cleanup(func() {
		a.Close()
		b.Close()
	})
	var claims []*driver.Claim
	for i := range 40 { // so that each server has some of them
		c := r.claim()
		c.Name = fmt.Sprint(r.name, "/", i)
		c.Ticket = r.holds(a, c).Ticket
		claims = append(claims, c)
	}
	for i := range s.Servers {
		s.Down(i)
		r.renewedWithout(s, a, claims)
		s.Up(i)
		r.until(recovers, "all claims are renewed", func() bool {
			_, not := r.renewals(a, claims)
			return len(not) == 0
		})
	}
	if s.Spare > 0 {
		r.leaveBehind(s, a, b, claims)
	}
}

// renewals renews claims in one batch, and returns the renewed claims and the others. The server of each of the others was
// out of reach, or the outcome is unknown.
func (r *run) renewals(d driver.Driver, claims []*driver.Claim) (renewed, not []*driver.Claim) {
	r.Helper()
	for i, a := range d.Renew(r.ctx, claims) {
		switch {
		case a.Err == nil:
			renewed = append(renewed, claims[i])
		case driver.OutcomeOf(a.Err) == driver.OutcomeRefused && !driver.IsUnreachable(a.Err):
			r.Fatalf("renewal of a claim that may be on a server out of reach = %v; want nil, or that it is out of reach", a.Err)
		default:
			not = append(not, claims[i])
		}
	}
	return renewed, not
}

// renewedWithout renews claims in a batch that begins with the claims on a server that is out of reach. These cannot be
// renewed. With servers to spare, all can be renewed as soon as the other servers have caught up with the majority that let
// a claim in.
func (r *run) renewedWithout(s *Several, d driver.Driver, claims []*driver.Claim) {
	r.Helper()
	if s.Spare > 0 {
		r.until(recovers, "all claims are renewed without one server", func() bool {
			_, not := r.renewals(d, claims)
			return len(not) == 0
		})
		return
	}
	renewed, not := r.renewals(d, claims)
	if len(not) == 0 || len(renewed) == 0 {
		r.Fatalf("with one server of %d out of reach %d claims of %d are renewed; want some, and some not", s.Servers, len(renewed), len(claims))
	}
	again, _ := r.renewals(d, append(not, renewed...))
	for _, c := range renewed {
		if !slices.Contains(again, c) {
			r.Fatalf("a claim on a server within reach is not renewed after %d on one that is not", len(not))
		}
	}
}

// leaveBehind lets claims leave as soon as a server is back that was found out of reach a moment ago. The claims must leave
// that server too, so that another server may fail next.
func (r *run) leaveBehind(s *Several, a, b driver.Driver, claims []*driver.Claim) {
	s.Down(0)
	other := r.claim()
	r.until(recovers, "a lock is to be had without one server", func() bool { // the client asks the lost servers again
		p, err := a.Enter(r.ctx, other)
		return err == nil && p.Holds
	})
	s.Up(0)
	for _, c := range claims {
		r.leave(a, c)
	}
	for i := range s.Spare {
		s.Down(1 + i)
	}
	for _, c := range claims {
		r.until(5*r.store.Slack, "a claim that left is out of the server that was back", func() bool {
			next, holds := r.tries(b, c)
			if holds {
				r.leave(b, next)
			}
			return holds
		})
	}
}
