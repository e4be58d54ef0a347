package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

// A Mishap is a thing that happens to a store while a claim holds, such as a removed file, a replaced log, or a restart that
// forgets. The suite makes a store for it that nobody else uses.
type Mishap struct {
	// Open connects one more client to the store in its present state. An error says that the store refuses clients now. The
	// suite closes the client.
	Open func() (driver.Driver, error)

	// Happens is called once, when a claim holds.
	Happens func()

	// Over ends the mishap. The suite calls it when the earlier clients are refused; until then, the store must confirm
	// nothing to them. Nil means that the mishap does not end.
	Over func()

	// Keeps says that the store still has the claim, so its renewal must succeed. Frees says that the claim is certainly void,
	// so the first claim that tries then holds.
	Keeps, Frees bool

	// Told says that the claim is void for its holder too: its next renewal must say so, whether or not others have entered.
	Told bool

	// Forgets says that the store no longer knows which tickets it gave, for example because it was restored from an
	// old copy, and may give them again. Only a client that was there before can notice, and may refuse the store
	// until it is opened again.
	Forgets bool

	// Back is how long a client may need to reach the store again; 0 means that no connection broke.
	Back time.Duration
}

var mishapCases = []Case{
	{"Mishap", "Whatever happened to the store, a claim whose renewal succeeds keeps others out, a Leave touches no " +
		"other claim, and tickets go on rising.", 0, mishap},
}

func mishap(r *run) {
	for _, name := range slices.Sorted(maps.Keys(r.store.Mishaps)) {
		for _, first := range []bool{false, true} {
			one := *r
			one.name = r.name + "/" + rand.Text() // a store may have remains of the previous mishap
			var cancel context.CancelFunc
			one.ctx, cancel = context.WithTimeout(r.Context(), time.Minute)
			m := r.store.Mishaps[name](r)
			one.strike(name, m, first)
			cancel()
			if m.Back > 0 {
				break // before others try, the holder would only notice its broken connection
			}
		}
	}
}

// strike makes a mishap happen to the store in which a claim holds. The holder renews it before others try, or after.
func (r *run) strike(name string, m *Mishap, first bool) {
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
	left := r.claim() // the first claim, like the first one after the mishap: the store may restart its counts
	left.Name += "/left"
	left.Ticket = r.holds(holder, left).Ticket
	held := r.claim()
	held.Ticket = r.holds(holder, held).Ticket
	earlier, err := open() // a client from before the mishap
	if err != nil {
		r.Fatalf("before %s: open: %v; want nil", name, err)
	}
	if _, got := r.tries(earlier, held); got {
		r.Fatalf("before %s two hold", name)
	}
	r.renew(holder, held)
	m.Happens()
	if m.Over != nil {
		r.refuses(name, m, func() error { return holder.Renew(r.ctx, []*driver.Claim{held})[0].Err })
		r.refuses(name, m, func() error { _, _, err := r.attempt(earlier, held); return err })
		m.Over()
	}

	renews := func() bool {
		return r.back(m, func() error { return holder.Renew(r.ctx, []*driver.Claim{held})[0].Err }) == nil
	}
	renewed := first && renews()
	if renewed && m.Told {
		r.Fatalf("after %s the claim is renewed; want its holder told that it is gone", name)
	}
	others := []driver.Driver{earlier}
	later, refused := open()
	if refused == nil {
		others = append(others, later)
	}
	check := func() {}
	if refused == nil {
		check = r.takes(name, m, later, left)
	}
	for i, other := range others {
		next, got := r.comesBack(m, other, held)
		who, knows := []string{"a client of before", "a new client"}[i], i == 0
		again := (got || m.Keeps) && renews()
		switch {
		case got && (again || renewed || m.Keeps):
			r.Fatalf("after %s %s holds too: the claim was renewed before that %v, and after that %v", name, who, renewed, again)
		case got && (knows || !m.Forgets) && r.traits.Fencing != driver.NoFencing && next.Ticket <= held.Ticket:
			r.Fatalf("after %s %s holds with ticket %d; want above %d, which was given before", name, who, next.Ticket, held.Ticket)
		case m.Keeps && !again:
			r.Fatalf("after %s the claim is not renewed; want it renewed", name)
		case m.Frees && !got && !(knows && m.Forgets):
			r.Fatalf("after %s %s does not hold; want it to", name, who)
		}
		if got {
			_ = holder.Leave(r.ctx, &driver.Release{Claim: held}) // the claim is gone, or the outcome unknown
			if err := other.Renew(r.ctx, []*driver.Claim{next})[0].Err; err != nil {
				r.Fatalf("after %s %s holds, and the claim of before has left: renewal = %v; want nil", name, who, err)
			}
			r.leave(other, next)
		}
		if i == 0 {
			_ = holder.Leave(r.ctx, &driver.Release{Claim: left}) // without an earlier renewal
			check()
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
	next := r.claim() // a claim that could not leave blocks it until its lease ends
	if next.Ticket = r.enter(last, next).Ticket; !m.Forgets && r.traits.Fencing != driver.NoFencing && next.Ticket <= held.Ticket {
		r.Fatalf("after %s, when all are closed, the ticket is %d; want above %d, which was given before", name, next.Ticket, held.Ticket)
	}
	last.Close()
}

// refuses repeats a call until the store refuses it.
func (r *run) refuses(name string, m *Mishap, call func() error) {
	r.Helper()
	r.until(m.Back, "a client is refused while "+name, func() bool {
		err := call()
		if err == nil {
			r.Fatalf("while %s a request is confirmed", name)
		}
		return driver.OutcomeOf(err) == driver.OutcomeRefused
	})
}

// takes lets a new client take the lock of a claim that the mishap hit too. It returns a check that the new claim still
// holds, to be made when the former holder has left.
func (r *run) takes(name string, m *Mishap, d driver.Driver, left *driver.Claim) (check func()) {
	next, got := r.comesBack(m, d, left)
	switch {
	case !got:
		return func() {}
	case m.Keeps:
		r.Fatalf("after %s a new client holds what the store still has", name)
	case !m.Forgets && r.traits.Fencing != driver.NoFencing && next.Ticket <= left.Ticket:
		r.Fatalf("after %s a new client holds with ticket %d; want above %d, which was given before", name, next.Ticket, left.Ticket)
	}
	return func() {
		if err := d.Renew(r.ctx, []*driver.Claim{next})[0].Err; err != nil {
			r.Fatalf("after %s a new client holds, and the claim of before has left: renewal = %v; want nil", name, err)
		}
		r.leave(d, next)
	}
}

// comesBack is tries, repeated while the client may not have reached the store again.
func (r *run) comesBack(m *Mishap, d driver.Driver, beside *driver.Claim) (next *driver.Claim, holds bool) {
	_ = r.back(m, func() (err error) {
		next, holds, err = r.attempt(d, beside)
		return err
	})
	return next, holds
}

// back repeats an unanswered call until the client must have reached the store again.
func (r *run) back(m *Mishap, call func() error) error {
	for over := awake.For(m.Back); ; {
		err := call()
		answered := driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) || errors.Is(err, driver.ErrSession)
		if err == nil || answered || awake.Over(over) || !poll(r.ctx) {
			return err
		}
	}
}

// tries enters a claim with Try beside another, and reports whether it holds.
func (r *run) tries(d driver.Driver, beside *driver.Claim) (next *driver.Claim, holds bool) {
	next, holds, _ = r.attempt(d, beside)
	return next, holds
}

func (r *run) attempt(d driver.Driver, beside *driver.Claim) (next *driver.Claim, holds bool, err error) {
	next = r.claim()
	next.Name, next.Try = beside.Name, true
	p, err := d.Enter(r.ctx, next)
	next.Ticket = p.Ticket
	return next, err == nil && p.Holds, err
}
