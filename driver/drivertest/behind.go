package drivertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Behind is a store of several servers, which nobody else uses, and a client that one of its servers answers. That server
// can be apart from the others.
type Behind struct {
	Driver driver.Driver // the suite closes it

	// FallsBehind makes the server show the store as it was before any claim, in all answers that it gives by itself,
	// until CatchesUp is called, or until it answers a request that the servers have to agree on.
	FallsBehind, CatchesUp func()

	// Reconnect breaks the client's connection. Looked reports whether the client has then asked the server again for
	// something that this server answers without the others, or FallsBehind is over. Nil means that the client never asks by
	// itself.
	Reconnect func()
	Looked    func() bool

	// Alone cuts the server off from the others for good. It still answers the requests that need no other server, and refuses
	// the rest. After Session, the others give the client's locks away. Nil means that such a server answers nothing.
	Alone   func()
	Session time.Duration

	// Left returns how many claims the store has.
	Left func() int
}

var behindCases = []Case{
	{"Behind", "A claim that one server does not show, since it is behind the others, is not gone: it is renewed, and leaves.", 0, behind},
	{"Alone", "A client whose server has lost the others is not told that it holds for longer than until they give the lock away.",
		0, alone},
}

// behinds runs a case on a store of each kind.
func (r *run) behinds(check func(kind string, make func() *Behind)) {
	for _, kind := range slices.Sorted(maps.Keys(r.store.Behind)) {
		check(kind, func() *Behind {
			b := r.store.Behind[kind](r)
			r.Cleanup(func() { b.Driver.Close() })
			return b
		})
	}
}

func behind(r *run) {
	r.behinds(func(kind string, start func() *Behind) {
		for _, look := range []struct {
			what string
			call func(b *Behind, holder, waiter *driver.Claim) error
		}{
			{"the holder enters again", func(b *Behind, holder, _ *driver.Claim) error {
				b.FallsBehind()
				_, err := b.Driver.Enter(r.ctx, holder)
				return err
			}},
			{"the waiter enters again", func(b *Behind, _, waiter *driver.Claim) error {
				b.FallsBehind()
				_, err := b.Driver.Enter(r.ctx, waiter)
				return err
			}},
			{"the holder is renewed", func(b *Behind, holder, _ *driver.Claim) error {
				b.FallsBehind()
				return r.renew(b.Driver, holder).Err
			}},
			{"the waiter awaits its turn", func(b *Behind, _, waiter *driver.Claim) error {
				b.FallsBehind()
				ctx, cancel := context.WithTimeout(r.ctx, heldUp)
				defer cancel()
				_, err := b.Driver.Await(ctx, waiter)
				return err
			}},
			{"the client connects again", func(b *Behind, _, _ *driver.Claim) error {
				if b.Reconnect != nil {
					b.FallsBehind()
					b.Reconnect()
					r.until(recovers, "the client has looked again", b.Looked)
				}
				return nil
			}},
		} {
			b := start()
			holder, waiter := r.claim(), r.claim()
			holder.Ticket = r.holds(b.Driver, holder).Ticket
			waiter.Ticket = r.waits(b.Driver, waiter).Ticket
			if err := look.call(b, holder, waiter); driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) {
				r.Fatalf("%s: a server is behind, and %s: %v; want nil, or that it is not known", kind, look.what, err)
			}
			b.CatchesUp()
			for _, c := range []*driver.Claim{holder, waiter} {
				var err error
				r.until(recovers, "the store is reached", func() bool {
					err = r.renew(b.Driver, c).Err
					return !driver.IsUnreachable(err)
				})
				if err != nil {
					r.Errorf("%s: a server was behind, and %s: renewal of the one with ticket %d, after the holder's %d = %v; want nil", kind,
						look.what, c.Ticket, holder.Ticket, err)
				}
			}
			r.leave(b.Driver, holder)
			if p, err := r.turn(r.ctx, b.Driver, waiter); err != nil || !p.Holds {
				r.Fatalf("%s: the holder has left, and the next = %+v, %v; want it to hold", kind, p, err)
			}
			r.leave(b.Driver, waiter)
			if left := b.Left(); left != 0 {
				r.Errorf("%s: a server was behind, and %s: when all have left, the store has %d claims; want none", kind, look.what, left)
			}
		}
	})
}

func alone(r *run) {
	r.behinds(func(kind string, start func() *Behind) {
		b := start()
		if b.Alone == nil {
			return
		}
		c := r.claim()
		c.Ticket = r.holds(b.Driver, c).Ticket
		b.Alone()
		over := time.Now().Add(b.Session)
		for poll(r.ctx) {
			_ = r.renew(b.Driver, c)
			began := time.Now()
			p, err := b.Driver.Enter(r.ctx, c)
			if err == nil && p.Holds && p.TTL > 0 && began.Add(p.TTL).After(over) {
				r.Fatalf("%s: the client is told that it holds for %v, %v before the others give the lock away", kind, p.TTL, over.Sub(began))
			}
			if began.After(over) || errors.Is(err, driver.ErrGone) {
				return
			}
		}
		r.Fatalf("%s: the case did not end in time", kind)
	})
}
