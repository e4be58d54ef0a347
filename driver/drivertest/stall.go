package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Stalled is a client that can be stopped in the middle of a request.
type Stalled struct {
	driver.Driver
	After func(messages int) // stops it after this many more messages
	Still func() bool        // it is stopped, and the server has not given it up yet
	Pass  func()             // lets it go on
}

var stallCases = []Case{{
	Name:     "StallOthers",
	Sentence: "A client that stops in the middle of a request on one name delays no other name.",
	check: func(r *run) {
		if r.store.Stall == nil {
			return
		}
		for messages := range 4 {
			r.stall(messages)
		}
	},
}}

// stall stops a client after some messages of a request on one name. Meanwhile another client makes every kind of call on
// other names, renews claims on both names in one batch, and takes a name that was never used.
func (r *run) stall(messages int) {
	s := r.store.Stall(r)
	defer s.Close()
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Second)
	defer cancel()
	base := fmt.Sprint(r.name, "/", messages)
	on := func(name string) *driver.Claim {
		c := r.claim()
		c.Name = base + "/" + name
		return c
	}
	// Both names have a queue, so that no request on them can take a short way.
	first, waits, held, behind := on("stalled"), on("stalled"), on("held"), on("held")
	for _, c := range []*driver.Claim{first, waits, held, behind} {
		c.Ticket = r.enter(r.a, c).Ticket
	}
	var many []*driver.Claim
	for i := range 16 {
		c := on(fmt.Sprint("many/", i))
		c.Ticket = r.enter(r.a, c).Ticket
		many = append(many, c)
	}
	s.After(messages)
	asked := make(chan struct{})
	cut, stop := context.WithCancel(ctx)
	go func() {
		defer close(asked)
		for cut.Err() == nil {
			_, _ = s.Enter(cut, on("stalled"))
		}
	}()
	defer func() { stop(); s.Pass(); <-asked }()
	if !until(ctx, s.Still) {
		r.Fatalf("after %d messages the client does not stand still", messages)
	}
	short, end := context.WithTimeout(ctx, 3*time.Second)
	if err := r.a.Renew(short, []*driver.Claim{first, held})[1].Err; err != nil {
		r.Fatalf("after %d messages: the renewal of a claim on another name, in one request with one on this name = %v; "+
			"want nil", messages, err)
	}
	end()
	for _, answer := range r.a.Renew(ctx, append(many, held)) {
		if answer.Err != nil {
			r.Fatalf("after %d messages: the renewal of claims on other names = %v; want nil", messages, answer.Err)
		}
	}
	if err := r.b.Leave(ctx, &driver.Release{Claim: behind}); err != nil {
		r.Fatalf("after %d messages: the leave of a claim on another name = %v; want nil", messages, err)
	}
	fresh := on("fresh")
	if p, err := r.b.Enter(ctx, fresh); err != nil || !p.Holds {
		r.Fatalf("after %d messages: the enter on a name that was never used = %+v, %v; want a claim that holds",
			messages, p, err)
	}
	if !s.Still() {
		r.Fatalf("after %d messages: all that took until the server gave up the client that stands still", messages)
	}
}

// until asks until the answer is yes, and reports false if the context ended first.
func until(ctx context.Context, yes func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
