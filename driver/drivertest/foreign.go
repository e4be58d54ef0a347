package drivertest

import (
	"maps"
	"slices"
	"time"
)

// A Foreign is another program that locks a name, and that knows only the format that it shares with the driver.
type Foreign struct {
	// Holds asks for the lock, unless the program already has, and reports whether the program holds it.
	Holds func() bool

	// Leave releases the lock.
	Leave func()

	// Blind says that the program does not see the driver's claims, though the driver sees the program's locks.
	Blind bool
}

var foreignCases = []Case{
	{"Foreign", "A lock of another program that knows the format is taken, one that the driver has is taken for that program, and " +
		"who waits for the other holds when it has left.", 0, foreign},
}

func foreign(r *run) {
	for _, kind := range slices.Sorted(maps.Keys(r.store.Foreign)) {
		first, held := r.store.Foreign[kind], r.claim()
		held.Name += "/" + held.ID
		f := first(r, held.Name)
		if !f.Holds() {
			r.Fatalf("%s: it does not hold a lock that nobody has used", kind)
		}
		if _, got := r.tries(r.a, held); got {
			r.Fatalf("%s: it holds, and a try is granted", kind)
		}
		if p := r.waits(r.b, held); r.traits.Ordered && p.Ahead == 0 {
			r.Errorf("%s: it holds, and who waits has nobody ahead", kind)
		}
		f.Leave()
		p, err := r.turn(r.ctx, r.b, held)
		if err != nil || !p.Holds {
			r.Fatalf("%s: it has left, and who waited = %+v, %v; want it to hold", kind, p, err)
		}
		held.Ticket = p.Ticket
		if f.Blind {
			r.leave(r.b, held)
			continue
		}
		next := first(r, held.Name)
		if next.Holds() {
			r.Fatalf("%s: it holds what the driver holds", kind)
		}
		if err := r.renew(r.b, held).Err; err != nil || next.Holds() {
			r.Fatalf("%s: after a renewal of what the driver holds, %v, it holds too", kind, err)
		}
		r.leave(r.b, held)
		r.until(r.store.Slack+time.Second, kind+" holds after the driver's claim has left", next.Holds)
		if _, got := r.tries(r.a, held); got {
			r.Fatalf("%s: it holds again, and a try is granted", kind)
		}
		next.Leave()
		last := r.claim()
		last.Name = held.Name
		if p, err := r.turn(r.ctx, r.a, last); err != nil || !p.Holds {
			r.Fatalf("%s: it has left again, and the next = %+v, %v; want it to hold", kind, p, err)
		}
		r.leave(r.a, last)
	}
}
