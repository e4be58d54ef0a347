package drivertest

import "github.com/stilelock/stile/driver"

var lockCases = []Case{
	{"Exclusive", "A claim holds while the weights of the claims up to and including it fit the capacity.", 0, exclusive},
	{"Order", "Claims hold in the order in which they entered.", ordered, order},
	{"Readers", "Readers at the head share.", ordered | shared, readers},
	{"WriterStopsReaders", "A waiting writer stops later readers.", ordered | shared, writerStopsReaders},
	{"Permits", "A claim of n permits holds n at once or none.", ordered | permits, permitsAtOnce},
	{"PermitsStable", "Claims enter only at the tail, so a claim that holds goes on holding.", ordered | permits,
		permitsStable},
}

func exclusive(r *run) {
	first, second := r.claim(), r.claim()
	r.holds(r.a, first)
	r.waits(r.b, second)
	r.waits(r.a, r.claim())
	r.holds(r.a, first)
}

func order(r *run) {
	var claims []*driver.Claim
	for i := range 6 {
		c := r.claim()
		d := r.a
		if i%2 == 1 {
			d = r.b
		}
		c.Ticket = r.enter(d, c).Ticket
		claims = append(claims, c)
	}
	for i, c := range claims {
		if i > 0 && c.Ticket <= claims[i-1].Ticket {
			r.Errorf("ticket %d entered after ticket %d", c.Ticket, claims[i-1].Ticket)
		}
	}
	for len(claims) > 0 {
		if p := r.holds(r.b, claims[0]); p.Ticket != claims[0].Ticket || p.Ahead != 0 {
			r.Errorf("the head's place is %+v; want ticket %d and 0 ahead", p, claims[0].Ticket)
		}
		for i, c := range claims[1:] {
			if p := r.waits(r.b, c); p.Ticket != c.Ticket || p.Ahead != i+1 {
				r.Errorf("the place is %+v; want ticket %d and %d ahead", p, c.Ticket, i+1)
			}
		}
		r.leave(r.a, claims[0])
		claims = claims[1:]
	}
}

func readers(r *run) {
	var claims []*driver.Claim
	for i := range 10 {
		c := r.shared()
		if p := r.holds(r.a, c); p.Ahead != i {
			r.Errorf("reader %d has %d ahead; want %[1]d", i, p.Ahead)
		}
		claims = append(claims, c)
	}
	writer := r.claim()
	r.waits(r.b, writer)
	for _, c := range claims {
		r.waits(r.b, writer)
		r.leave(r.a, c)
	}
	r.holds(r.b, writer)
}

func writerStopsReaders(r *run) {
	first, writer, second, third := r.shared(), r.claim(), r.shared(), r.shared()
	r.holds(r.a, first)
	r.waits(r.b, writer)
	r.waits(r.a, second)
	r.waits(r.b, third)
	r.leave(r.a, first)
	r.holds(r.b, writer)
	r.waits(r.a, second)
	r.leave(r.b, writer)
	r.holds(r.a, second)
	r.holds(r.b, third)
}

func permitsAtOnce(r *run) {
	two, one, three := r.permit(2, 3), r.permit(1, 3), r.permit(3, 3)
	r.holds(r.a, two)
	r.waits(r.b, three)
	if p := r.waits(r.a, one); p.Ahead != 2 {
		r.Errorf("one permit behind three that wait has %d ahead; want 2", p.Ahead)
	}
	r.leave(r.a, two)
	r.holds(r.b, three)
	r.waits(r.a, one)
	r.leave(r.b, three)
	r.holds(r.a, one)
	r.holds(r.b, r.permit(2, 3))
}

func permitsStable(r *run) {
	one, two := r.permit(1, 4), r.permit(3, 4)
	r.holds(r.a, one)
	p := r.holds(r.b, two)
	r.waits(r.a, r.permit(1, 4))
	r.leave(r.a, one)
	if again := r.holds(r.b, two); again.Ticket != p.Ticket {
		r.Errorf("the ticket is %d; want %d", again.Ticket, p.Ticket)
	}
}
