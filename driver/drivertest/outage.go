package drivertest

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

var outageCases = []Case{
	{"Outage", "Once the store is within reach again, a claim that waits is told as before: it does not ask more than one that saw no outage.",
		0, outage},
}

// A Counter is a [Way] that counts its messages.
type Counter interface {
	Asked() int // how many messages clients have sent so far
}

const (
	restful    = 1500 * time.Millisecond // how long a waiter's messages are counted
	occasional = 8                       // messages that the waiter may send meanwhile, such as to keep a connection open
)

func outage(r *run) {
	if r.store.Detour == nil || r.traits.Wake != "push" {
		return
	}
	holder := r.claim()
	holder.Ticket = r.holds(r.a, holder).Ticket
	spared, struck := r.store.detour(r), r.store.detour(r)
	counter, ok := struck.Way.(Counter)
	if !ok {
		return
	}
	calm, waiter := r.claim(), r.claim()
	calm.Ticket, waiter.Ticket = r.waits(spared, calm).Ticket, r.waits(struck, waiter).Ticket

	struck.Freeze(true, true)
	ctx, cancel := context.WithTimeout(r.ctx, heldUp)
	for poll(ctx) {
		_, _ = struck.Await(ctx, waiter) // whatever it says
	}
	cancel()
	struck.Drop()
	r.until(recovers, "the client is through again", func() bool {
		p, err := struck.Enter(r.ctx, waiter)
		return err == nil && !p.Holds
	})

	ctx, cancel = context.WithCancel(r.ctx)
	defer cancel()
	ends := make(chan error, 2)
	for on, c := range map[*Detour]*driver.Claim{spared: calm, struck: waiter} {
		go func() {
			p, err := r.reentered(ctx, on, c)
			if err == nil {
				_, err = r.turnOnly(ctx, on, c, p)
			}
			if err == nil {
				err = on.Leave(r.ctx, &driver.Release{Claim: c})
			}
			ends <- err
		}()
	}
	r.pauses()
	before, after := r.messages(spared.Way.(Counter), counter)
	if after > 2*before+occasional {
		r.Errorf("within %v a claim that waits sent %d messages after an outage; want about as few as one that saw none, %d", restful, after, before)
	}
	r.leave(r.a, holder)
	for range 2 {
		if err := <-ends; err != nil {
			r.Fatalf("a claim that waits = %v; want its turn", err)
		}
	}
}

// messages counts the messages on two ways for a while.
func (r *run) messages(one, other Counter) (byOne, byOther int) {
	byOne, byOther = -one.Asked(), -other.Asked()
	for begun := time.Now(); time.Since(begun) < restful && poll(r.ctx); {
	}
	return byOne + one.Asked(), byOther + other.Asked()
}
