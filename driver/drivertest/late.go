package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

var lateCases = []Case{
	{"LateEnter", "An Enter that arrives after the client's own next claim of that name does not touch that claim.",
		0, lateEnter},
	{"LateEnterLostLeave", "An Enter that arrives after a Leave that got no answer is taken out by the client's next Leave.", 0,
		lateEnterLostLeave},
	{"LateEnterRemoved", "An Enter that arrives after its claim was removed keeps nobody out once its client knows that the claim is gone.",
		0, lateEnterRemoved},
	{"LateCleanup", "What its client does about an Enter that got no answer, and that arrives late, does not touch the claim that " +
		"the next Enter found.", 0, lateCleanup},
	{"LateTry", "A try that arrives when the name is taken does not wait for it, also if it is made again.", 0, lateTry},
	{"LateLeave", "A Leave that arrives after the client's own next claim of that name does not touch that claim.", 0,
		lateLeave},
	{"LateLeaveInDoubt", "A Leave of a claim whose amendment got no answer, if it arrives after the client's own next claim of that " +
		"name, does not touch that claim.", amends, lateLeaveInDoubt},
	{"LateRenew", "A renewal that arrives after the client's own next claim of that name does not touch that claim.",
		0, lateRenew},
}

const (
	heldUp    = 200 * time.Millisecond // how long a caller waits for the answer to a request that is held up
	afterward = 200 * time.Millisecond // how long the store is watched after such a request arrived
	recovers  = 30 * time.Second       // bound of the time until a client reaches the store again
)

func lateEnter(r *run) {
	on := r.store.detour(r)
	r.heldUp(on, "enter", r.claim, func(ctx context.Context, c *driver.Claim) error {
		_, err := on.Enter(ctx, c)
		return err
	}, r.lateFor)
}

func lateEnterLostLeave(r *run) {
	on := r.store.detour(r)
	r.heldUp(on, "enter", r.claim, func(ctx context.Context, c *driver.Claim) error {
		_, err := on.Enter(ctx, c)
		return err
	}, func(on *Detour, c *driver.Claim) {
		on.Freeze(true, false)
		ctx, cancel := context.WithTimeout(r.ctx, heldUp)
		defer cancel()
		// The result does not matter, nor does the client's next step for a claim of unknown fate.
		_ = on.Leave(ctx, &driver.Release{Claim: c})
		on.Drop()
		if on.Held() == 0 {
			r.Fatalf("no request is held up any more")
		}
		r.lateFor(on, c)
	})
}

func lateEnterRemoved(r *run) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok || r.store.Detour == nil { // without a detour a whole call of the client is late
		return
	}
	on := r.store.detour(r)
	r.heldUp(on, "enter", r.claim, func(ctx context.Context, c *driver.Claim) error {
		_, err := on.Enter(ctx, c)
		return err
	}, func(on *Detour, c *driver.Claim) {
		var (
			p   driver.Place
			err error
		)
		defer func() { // a failed case ends here
			if err != nil || !p.Holds {
				r.Logf("the last enter = %+v, %v", p, err)
			}
		}()
		r.until(recovers, "the claim holds", func() bool {
			p, err = on.Enter(r.ctx, c)
			c.Ticket = p.Ticket
			return err == nil && p.Holds
		})
		if _, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ticket: c.Ticket}); err != nil {
			r.Fatalf("break = %v; want nil", err)
		}
		on.Arrive()
		// On a busy machine, the store may apply the late request only after the client has learned that its claim is gone. Then
		// the client must learn it once more.
		r.until(recovers, "the name is free once the client knows that the claim is gone", func() bool {
			_, err := on.Enter(r.ctx, c)
			if err == nil { // it found the claim of the late request
				err = on.Leave(r.ctx, &driver.Release{Claim: c})
				return (err == nil || errors.Is(err, driver.ErrGone)) && r.free()
			}
			return errors.Is(err, driver.ErrGone) && r.free()
		})
	})
}

// lateCleanup loses the answer to each message of an Enter in turn, and holds up the messages that the client then sends.
func lateCleanup(r *run) {
	on := r.warmed()
	for after := range mostMessages {
		c := r.claim()
		c.Delay = r.delay(time.Minute)
		through := r.unanswered(on, after, func(ctx context.Context) { _, _ = on.Enter(ctx, c) }) // whatever it says
		gone := false
		r.until(recovers, "the claim holds, or went with its connection", func() bool {
			p, err := on.Enter(r.ctx, c)
			gone = errors.Is(err, driver.ErrGone)
			c.Ticket = p.Ticket
			return gone || err == nil && p.Holds
		})
		on.Arrive()
		if gone { // gone for good; the next claim has another id
			r.until(r.store.Slack, "the name is free", r.free)
			if through {
				return
			}
			continue
		}
		r.during(afterward, "the claim stands, and keeps others out", func() bool {
			return r.renew(on, c).Err == nil && !r.free()
		})
		r.leave(on, c)
		r.until(r.store.Slack, "the name is free", r.free)
		if through {
			return
		}
	}
}

// unanswered makes a call. The answer to one of its messages is lost, and all later messages of the client are held up. It
// reports whether the call needed fewer messages, and so got all answers.
func (r *run) unanswered(on *Detour, after int, call func(context.Context)) (through bool) {
	r.Helper()
	on.Hold(after)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		call(ctx)
	}()
	if through = r.upTo(on, ended); !through {
		on.Freeze(false, true)
		on.Arrive() // but the answer does not
		r.pauses()
		cancel()
		<-ended
		r.pauses() // time for the client to react
	}
	on.Pass()
	on.Drop()
	return through
}

// upTo waits until a message is held up. It reports true if the call ended first, so it needed fewer messages.
func (r *run) upTo(on *Detour, ended <-chan struct{}) (through bool) {
	r.until(recovers, "a message is held up, or the call ends", func() bool {
		select {
		case <-ended:
			through = true
		default:
		}
		return through || on.Held() > 0
	})
	return through
}

// pauses gives messages on their way a moment.
func (r *run) pauses() {
	for range 10 {
		poll(r.ctx)
	}
}

func lateTry(r *run) {
	on := r.store.detour(r)
	try := func() *driver.Claim {
		c := r.claim()
		c.Try = true
		return c
	}
	r.heldUp(on, "try", try, func(ctx context.Context, c *driver.Claim) error {
		_, err := on.Enter(ctx, c)
		return err
	}, func(on *Detour, c *driver.Claim) {
		holder := r.claim()
		came := r.enter(r.b, holder) // which waits if enough of the try has arrived
		holder.Ticket = came.Ticket
		on.Arrive()
		r.until(recovers, "the try is made again", func() bool {
			p, err := on.Enter(r.ctx, c)
			if err == nil && p.Holds == came.Holds || err == nil && !p.Holds && p.Ticket != 0 {
				r.Fatalf("a try that began before a claim entered as %+v = %+v; want one of them to hold, and no try that waits", came, p)
			}
			return err == nil
		})
		r.until(recovers, "the try is out", func() bool { return r.out(on, c) })
		r.leave(r.b, holder)
		r.until(r.store.Slack, "the name is free", func() bool { return r.out(on, c) && r.free() })
	})
}

func lateLeave(r *run) {
	on := r.store.detour(r)
	r.heldUp(on, "leave", r.holder(on), func(ctx context.Context, c *driver.Claim) error {
		return on.Leave(ctx, &driver.Release{Claim: c})
	}, r.lateFor)
}

// lateLeaveInDoubt is lateLeave for a claim whose state in the store its client does not know, since the answer to the last
// message of an amendment was lost.
func lateLeaveInDoubt(r *run) {
	on := r.warmed()
	holder := r.holder(on)
	inDoubt := func(after int) (c *driver.Claim, through bool) {
		c = holder()
		through = r.unanswered(on, after, func(ctx context.Context) {
			amended := *c
			amended.Amend = &driver.Amendment{Record: "second"}
			_ = on.Renew(ctx, []*driver.Claim{&amended}) // whatever it says
		})
		on.Arrive()
		r.until(recovers, "the client is through again", func() bool {
			other := r.claim()
			other.Name += "/other"
			_, err := on.Enter(r.ctx, other)
			return err == nil && r.out(on, other)
		})
		return c, through
	}
	last := -1
	for through := false; !through; last++ {
		var c *driver.Claim
		c, through = inDoubt(last + 1)
		r.until(recovers, "the claim is out", func() bool { return r.out(on, c) && r.free() })
	}
	r.heldUp(on, "leave", func() *driver.Claim {
		c, _ := inDoubt(max(last-1, 0))
		return c
	}, func(ctx context.Context, c *driver.Claim) error {
		return on.Leave(ctx, &driver.Release{Claim: c})
	}, r.lateFor)
}

func lateRenew(r *run) {
	on := r.store.detour(r)
	r.heldUp(on, "renewal", r.holder(on), func(ctx context.Context, c *driver.Claim) error {
		return on.Renew(ctx, []*driver.Claim{c})[0].Err
	}, r.lateFor)
}

// holder returns a function that makes a claim and lets it hold.
func (r *run) holder(on *Detour) func() *driver.Claim {
	return func() *driver.Claim {
		r.Helper()
		c := r.claim()
		c.Record = "first"
		c.Ticket = r.holds(on, c).Ticket
		return c
	}
}

// mostMessages bounds the messages of a call.
const mostMessages = 12

// heldUp makes a call whose first message does not arrive before its caller gives up, and then checks the effect. Then it
// does the same with another claim and the second message, and so on, until a call needs no more messages.
func (r *run) heldUp(
	on *Detour, verb string, claim func() *driver.Claim, call func(context.Context, *driver.Claim) error,
	then func(*Detour, *driver.Claim),
) {
	r.Helper()
	// The first call lets the driver prepare its requests, and whatever else the next claim needs. From then on only the
	// claim's own messages are held up.
	first := claim()
	if err := call(r.ctx, first); err != nil {
		r.Fatalf("%s = %v; want nil", verb, err)
	}
	// A busy server may apply a request long after it arrived, when the case has gone on to the next claim.
	made := []*driver.Claim{first}
	allOut := func() bool {
		return !slices.ContainsFunc(made, func(c *driver.Claim) bool { return !r.out(on, c) }) && r.free()
	}
	r.until(recovers, "the claim is out", allOut)
	for after := range mostMessages {
		r.until(recovers, "the claims before are out", allOut)
		c := claim()
		made = append(made, c)
		on.Hold(after)
		ctx, cancel := context.WithCancel(r.ctx)
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = call(ctx, c)
		}()
		if !r.upTo(on, ended) {
			r.pauses() // while the caller waits in vain
		}
		cancel()
		<-ended
		on.Pass()
		switch {
		case err == nil && after > 0:
			on.Arrive() // another message of the client, if one was held up instead
			r.until(recovers, "the claim is out", allOut)
			return
		case err == nil, on.Held() == 0:
			r.Fatalf("%s, whose request is held up after %d messages = %v, and %d messages are held up; want an error, and one or more",
				verb, after, err, on.Held())
		}
		then(on, c)
	}
	r.Fatalf("%s is not through after %d messages", verb, mostMessages)
}

// out removes a claim, and reports whether it is gone.
func (r *run) out(on *Detour, c *driver.Claim) bool {
	err := on.Leave(r.ctx, &driver.Release{Claim: c})
	return err == nil || errors.Is(err, driver.ErrGone)
}

// lateFor removes a claim that has a request on its way, and checks the client's next claim.
func (r *run) lateFor(on *Detour, first *driver.Claim) {
	r.Helper()
	r.until(recovers, "the client knows that its claim is out", func() bool { return r.out(on, first) })
	next := r.claim()
	r.until(recovers, "the client's next claim holds", func() bool {
		p, err := on.Enter(r.ctx, next)
		next.Ticket = p.Ticket
		return err == nil && p.Holds
	})
	on.Arrive()
	if r.store.Taken != nil { // before a renewal, which may repair it
		r.during(afterward, "other programs find the lock taken", func() bool { return r.store.Taken(r, r.name) })
	}
	r.during(afterward, "the next claim stands, and keeps others out", func() bool {
		return r.renew(on, next).Err == nil && !r.free()
	})
	if p := r.holds(on, next); p.Ticket != next.Ticket {
		r.Errorf("the next claim has ticket %d; want %d", p.Ticket, next.Ticket)
	}
	r.leave(on, next)
	// An Enter that arrives late leaves its claim behind. Its client removes the claim by its id.
	r.until(r.store.Slack, "the name is free", func() bool { return r.out(on, first) && r.free() })
}
