package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest/internal/judge"
)

// A worker makes one claim of its client after the other.
type worker struct {
	*crowd
	member *member
	ctx    context.Context
	rand   *mathrand.Rand // for the step
	scenes []*scene
	label  string
	round  int
	number int                      // its number among the workers of the round
	only   []int                    // the steps to make; nil means all
	keeps  map[string]time.Duration // by claim: how long it is kept after it leaves
	serial int
	lapsed bool // a request for it has arrived after its lease

	claim *driver.Claim // nil means no claim
	stand workerStand
	past  []*driver.Claim
}

// A workerStand is a worker's knowledge of its claim.
//
//	asking ──it waits──► waiting ──it holds──► holding
//	  │  │                  │                    ▲  │
//	  │  └──────────────────┼────────────────────┘  │
//	  └─────────────────────┴──────────► leaving ◄──┘   from each of them the claim may be gone
type workerStand int

const (
	asking workerStand = iota
	waiting
	holding
	leaving // its Leave got no answer
)

// errRepeated stands for the answer to a repeated request, which nobody gets.
var errRepeated = errors.New("not answered")

// The kinds of trouble on a call's way.
const (
	requestLost  = "its request is lost"
	answerLost   = "its answer is lost"
	requestLate  = "its request is late"
	requestTwice = "its request comes once more"
	requestPast  = "its request comes after the lease"
)

func (w *worker) run() {
	for i := range crowdSteps {
		step := w.number*crowdSteps + i
		if w.only != nil && !slices.Contains(w.only, step) {
			continue
		}
		// Each step draws its own random choices, so that it stays the same if earlier steps are left out.
		w.rand = mathrand.New(mathrand.NewPCG(w.seed, uint64(w.round)<<16|uint64(step)))
		w.step()
		w.arrive()
	}
}

// arrive lets the client's late requests arrive at their time.
func (w *worker) arrive() {
	w.member.mu.Lock()
	defer w.member.mu.Unlock()
	if w.member.held > 0 {
		if w.member.held--; w.member.held == 0 {
			w.member.Arrive()
		}
	}
}

func (w *worker) step() {
	n := w.rand.IntN(100)
	switch {
	case n < 8 && w.lister != nil:
		w.list(w.scenes[w.rand.IntN(len(w.scenes))])
	case n < 14 && len(w.past) > 0:
		w.leave(w.past[w.rand.IntN(len(w.past))])
	case n < 18 && w.breaker != nil:
		w.breaks(w.scenes[w.rand.IntN(len(w.scenes))])
	case w.claim == nil:
		w.claim, w.stand = w.fresh(), asking
		w.enter()
	case w.stand == leaving && n < 40:
		w.out() // leaveAll removes it
	case w.stand == leaving, w.stand == asking && n < 40, w.stand == waiting && n < 30, w.stand == holding && n < 65:
		w.stand = leaving
		if w.leave(w.claim) {
			w.out()
		}
	case w.stand == waiting && n < 60:
		w.await()
	case w.stand != asking && n < 80:
		w.renew()
	default:
		w.enter()
	}
}

// out gives up the worker's claim.
func (w *worker) out() {
	w.past = append(w.past, w.claim)
	w.claim = nil
}

func (w *worker) fresh() *driver.Claim {
	s := w.scenes[w.rand.IntN(len(w.scenes))]
	w.serial++
	c := &driver.Claim{
		Name: s.name, ID: rand.Text(), Client: "drivertest-" + w.tag + w.member.label, Weight: s.weights[w.rand.IntN(len(s.weights))],
		Capacity: s.capacity, TTL: 2 * time.Minute, Wait: 2 * time.Minute, Try: w.rand.IntN(4) == 0,
		Record: fmt.Sprintf("%s-%d", w.label, w.serial),
	}
	if w.rand.IntN(3) == 0 {
		c.Owner, c.Reclaim = "job", w.rand.IntN(2) == 0
	}
	if w.lasting && w.rand.IntN(4) == 0 {
		c.TTL, c.Wait = w.brief, w.brief
	}
	if w.lasting && w.rand.IntN(5) == 0 {
		w.keeps[c.ID] = w.brief
	}
	return c
}

// mayFail reports whether a call of the client can meet trouble.
func (w *worker) mayFail(verb string) bool {
	_, whole := w.member.Driver.(*lateDriver)
	return verb == "enter" || verb == "leave" || verb == "renew" || verb == "break" && !whole
}

// called makes a call, with or without trouble on its way, and records its result.
func (w *worker) called(verb string, c *driver.Claim, do func(ctx context.Context, claim *driver.Claim, one *judge.Call)) *judge.Call {
	fault := ""
	if w.mayFail(verb) && w.rand.IntN(5) == 0 && w.ctx.Err() == nil {
		fault = []string{requestLost, answerLost, requestLate, requestLate, requestTwice}[w.rand.IntN(5)]
	}
	if _, whole := w.member.Driver.(*lateDriver); !whole && fault == requestTwice {
		fault = requestLate
	}
	if fault == requestLate && w.isBrief(c) && !w.lapsed {
		fault, w.lapsed = requestPast, true
	}
	return w.troubled(verb, fault, 1+w.rand.IntN(6), c, do)
}

func (w *worker) troubled(
	verb, fault string, late int, c *driver.Claim, do func(ctx context.Context, claim *driver.Claim, one *judge.Call),
) *judge.Call {
	one := &judge.Call{Client: w.member.label, Verb: verb, Fault: fault, Claim: *c}
	if verb == "leave" {
		one.Keep = w.keeps[c.ID]
	}
	bound := time.Second
	if fault != "" {
		w.member.mu.Lock()
		defer w.member.mu.Unlock()
		bound = w.unheard
	}
	switch fault {

	case requestLost:
		w.member.Freeze(true, false)
	case answerLost:
		w.member.Freeze(false, true)
	case requestLate, requestPast:
		w.member.Hold(0)
	}
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	if fault == requestTwice {
		ctx = context.WithValue(ctx, twice{}, true)
	}
	claim := one.Claim
	one.Began = time.Since(w.start)
	do(ctx, &claim, one)
	one.Ended = time.Since(w.start)
	w.hit(one)
	switch fault {
	case requestLost, answerLost:
		w.member.Drop()
	case requestLate:
		w.member.Pass()
		w.member.held = late
	case requestPast:
		w.member.Pass()
		for time.Since(w.start) < one.Ended+c.TTL && poll(w.ctx) { // until the lease is over that the call may have begun
		}
		w.member.Arrive()
	}
	w.did(one)
	if fault == requestTwice {
		w.member.held = late
		again := *one
		again.Err, again.Fault = driver.Unknown(errRepeated), "the same request, later"
		w.did(&again)
	}
	return one
}

// hit counts the trouble of a call.
func (w *worker) hit(one *judge.Call) {
	done := one.Err != nil && !one.Answered()
	if one.Fault == requestLate || one.Fault == requestPast {
		done = w.member.Held() > 0
	}
	if one.Fault != "" && (done || one.Fault == requestTwice) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hits[one.Fault]++
	}
}

func (w *worker) enter() {
	one := w.called("enter", w.claim, func(ctx context.Context, c *driver.Claim, one *judge.Call) {
		one.Place, one.Err = w.member.Enter(ctx, c)
	})
	_, capacity := errors.AsType[*driver.CapacityError](one.Err)
	switch {
	case one.Err == nil && one.Place.Ticket == 0, errors.Is(one.Err, driver.ErrGone), capacity:
		w.out()
	case one.Err == nil:
		w.stand = waiting
		if one.Place.Holds {
			w.stand = holding
		}
		w.claim.Ticket = one.Place.Ticket
	}
}

func (w *worker) await() {
	bound := time.Duration(1+w.rand.IntN(10)) * w.unheard / 10
	one := w.called("await", w.claim, func(ctx context.Context, c *driver.Claim, one *judge.Call) {
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		one.Place, one.Err = w.member.Await(ctx, c)
	})
	if one.Err == nil && one.Place.Holds {
		w.stand = holding
	}
}

func (w *worker) renew() {
	one := w.called("renew", w.claim, func(ctx context.Context, c *driver.Claim, one *judge.Call) {
		one.Err = w.member.Renew(ctx, []*driver.Claim{c})[0].Err
	})
	if errors.Is(one.Err, driver.ErrGone) {
		w.out()
	}
}

// leave reports whether the claim is out.
func (w *worker) leave(c *driver.Claim) bool {
	one := w.called("leave", c, func(ctx context.Context, c *driver.Claim, one *judge.Call) {
		one.Err = w.member.Leave(ctx, &driver.Release{Claim: c, Keep: one.Keep})
	})
	return one.Err == nil || errors.Is(one.Err, driver.ErrGone)
}

// breaks removes any worker's claim by hand.
func (w *worker) breaks(s *scene) {
	breaker, own := w.member.Driver.(driver.Breaker)
	if !own {
		breaker = w.breaker
	}
	w.called("break", &driver.Claim{Name: s.name, Ticket: w.ticket(s)}, func(ctx context.Context, c *driver.Claim, one *judge.Call) {
		var was driver.ClaimInfo
		was, one.Err = breaker.Break(ctx, &driver.BreakRequest{Name: c.Name, Ticket: c.Ticket})
		one.List = []driver.ClaimInfo{was}
	})
}

// ticket returns one of the latest tickets of a name, or 0.
func (w *worker) ticket(s *scene) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	tickets := []int64{0}
	for _, one := range w.calls {
		if one.Claim.Name == s.name && one.Place.Ticket != 0 {
			tickets = append(tickets, one.Place.Ticket)
		}
	}
	return tickets[max(0, len(tickets)-1-w.rand.IntN(4))]
}

func (w *worker) list(s *scene) {
	w.called("list", &driver.Claim{Name: s.name}, func(ctx context.Context, _ *driver.Claim, one *judge.Call) {
		var all []driver.Listing
		all, one.Err = w.lister.List(ctx, &driver.Query{Name: s.name})
		for _, l := range all {
			one.List = append(one.List, l.Claims...)
		}
	})
}

// leaveAll removes all claims that the worker ever had, and reports whether all are out.
func (w *worker) leaveAll(ctx context.Context) bool {
	if w.claim != nil {
		w.out()
	}
	out := true
	for _, c := range slices.Backward(w.past) {
		one := w.troubled("leave", "", 0, c, func(_ context.Context, c *driver.Claim, one *judge.Call) {
			one.Err = w.member.Leave(ctx, &driver.Release{Claim: c, Keep: one.Keep})
		})
		out = out && (one.Err == nil || errors.Is(one.Err, driver.ErrGone))
	}
	return out
}
