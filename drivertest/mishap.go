package drivertest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Mishap is something that may happen to a store while a claim holds, such as by an operator: a file that is removed, a
// log that is replaced, a restart that forgets. The suite makes a store for it that nobody else uses.
type Mishap struct {
	// Open connects one more client to the store as it is by then. An error says that the store refuses clients now. The
	// suite closes the client.
	Open func() (driver.Driver, error)

	// Happens is called once, when a claim holds.
	Happens func()

	// Keeps says that the store still has the claim, so its renewal must succeed. Frees says that the claim is void for
	// sure, so the first who tries then holds.
	Keeps, Frees bool
}

var mishapCases = []Case{
	{"Mishap", "Whatever happened to the store, a claim whose renewal succeeds keeps others out, and tickets go on rising.", 0, mishap},
}

func mishap(r *run) {
	for _, name := range slices.Sorted(maps.Keys(r.store.Mishaps)) {
		for _, first := range []bool{false, true} {
			one := *r
			var cancel context.CancelFunc
			one.ctx, cancel = context.WithTimeout(r.Context(), time.Minute)
			one.befalls(name, r.store.Mishaps[name](r), first)
			cancel()
		}
	}
}

// befalls has a mishap happen to the store in which a claim holds. The holder renews it before others try, or after.
func (r *run) befalls(name string, m *Mishap, first bool) {
	open := func() (driver.Driver, error) {
		d, err := m.Open()
		if err == nil {
			r.Cleanup(func() { d.Close() })
		}
		return d, err
	}
	holder, err := open()
	if err != nil {
		r.Fatalf("before %s: open: %v; want nil", name, err)
	}
	held := r.claim()
	held.Ticket = r.holds(holder, held).Ticket
	earlier, err := open() // a client that was there before
	if err != nil {
		r.Fatalf("before %s: open: %v; want nil", name, err)
	}
	if _, got := r.tries(earlier, held); got {
		r.Fatalf("before %s two hold", name)
	}
	r.renew(holder, held)
	m.Happens()

	renewed := first && holder.Renew(r.ctx, []*driver.Claim{held})[0].Err == nil
	others := []driver.Driver{earlier}
	later, refused := open()
	if refused == nil {
		others = append(others, later)
	}
	for i, other := range others {
		next, got := r.tries(other, held)
		who := []string{"a client of before", "a new client"}[i]
		again := holder.Renew(r.ctx, []*driver.Claim{held})[0].Err == nil
		switch {
		case got && (again || renewed || m.Keeps):
			r.Fatalf("after %s %s holds too: the claim was renewed before that %v, and after that %v", name, who, renewed, again)
		case got && r.traits.Fencing != driver.NoFencing && next.Ticket <= held.Ticket:
			r.Fatalf("after %s %s holds with ticket %d; want above %d, which was given before", name, who, next.Ticket, held.Ticket)
		case m.Keeps && !again:
			r.Fatalf("after %s the claim is not renewed; want it renewed", name)
		case m.Frees && !got:
			r.Fatalf("after %s %s does not hold; want it to", name, who)
		}
		if got {
			_ = holder.Leave(r.ctx, &driver.Release{Claim: held}) // which is gone, or unknown
			if err := other.Renew(r.ctx, []*driver.Claim{next})[0].Err; err != nil {
				r.Fatalf("after %s %s holds, and the claim of before has left: renewal = %v; want nil", name, who, err)
			}
			r.leave(other, next)
		}
	}
	_ = holder.Leave(r.ctx, &driver.Release{Claim: held})
	for _, d := range append(others, holder) {
		d.Close()
	}
	last, err := open()
	if err != nil {
		r.Fatalf("after %s, when all clients are closed: open: %v; want nil", name, err)
	}
	next := r.claim() // what could not leave is in its way, until its lease ends
	if next.Ticket = r.enter(last, next).Ticket; r.traits.Fencing != driver.NoFencing && next.Ticket <= held.Ticket {
		r.Fatalf("after %s, when all are closed, the ticket is %d; want above %d, which was given before", name, next.Ticket, held.Ticket)
	}
	last.Close()
}

// tries enters a claim beside another with Try, and reports whether it holds.
func (r *run) tries(d driver.Driver, beside *driver.Claim) (next *driver.Claim, holds bool) {
	next = r.claim()
	next.Name, next.Try = beside.Name, true
	p, err := d.Enter(r.ctx, next)
	next.Ticket = p.Ticket
	return next, err == nil && p.Holds
}
