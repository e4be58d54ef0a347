package drivertest

import (
	"maps"
	"slices"

	"github.com/stilelock/stile/driver"
)

var edgeCases = []Case{
	{"Edge", "Claims hold in the order in which they entered, with rising tickets, while a number that the store counts passes an edge, " +
		"such as 2^31, and up to the last ticket that fits.", ordered, edge},
}

func edge(r *run) {
	for _, edge := range slices.Sorted(maps.Keys(r.store.Edge)) {
		d := r.store.Edge[edge](r, r.name)
		r.Cleanup(func() { d.Close() })
		var line []*driver.Claim
		for i := range 6 {
			c := r.claim()
			p := r.enter(d, c)
			if p.Holds != (i == 0) || p.Ahead != i {
				r.Errorf("%s: claim %d of a queue = %+v; want %[2]d ahead of it", edge, i, p)
			}
			if p.Ticket >= 1<<53 {
				r.Errorf("%s: claim %d has ticket %d; want it below 1<<53", edge, i, p.Ticket)
			}
			if i > 0 && r.traits.Fencing != driver.NoFencing && p.Ticket <= line[i-1].Ticket {
				r.Errorf("%s: claim %d has ticket %d, after %d; want them to rise", edge, i, p.Ticket, line[i-1].Ticket)
			}
			c.Ticket = p.Ticket
			line = append(line, c)
		}
		for i, c := range line {
			for _, later := range line[i+1:] {
				r.waits(d, later)
			}
			p, err := r.turn(r.ctx, d, c)
			if err != nil || !p.Holds {
				r.Fatalf("%s: claim %d of a queue, when those before it have left = %+v, %v; want it to hold", edge, i, p, err)
			}
			r.leave(d, c)
		}
	}
}
