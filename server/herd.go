package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	mostOfHerd = 512 // claims that one request renews
	joinPart   = 30  // a renewal comes early by this part of the lease, to join others
)

// herds keep the places of the waiting claims of the simple API. They renew the claims of a name together. Otherwise each
// claim would be found by a request of its own, and in a store that reads the whole queue for each request, the work would
// grow with the square of the waiters.
//
// The first claim of a name at this server is not renewed so: its own request finds it again and again, and notices what no
// message says, such as the end of a dead holder's lease. It stands before the others, so none of them can hold sooner.
type herds struct {
	s    *Server
	kick chan struct{} // has an element if keep must look again

	mu   sync.Mutex            // guards the fields below, also in the waiting claims
	of   map[string][]*waiting // by name, in the order of the tickets
	on   bool                  // keep runs
	next time.Time             // when keep looks again
}

// A waiting is a claim that waits:
//
//	  found ◄──settle── finding ◄──┐
//	    │                          │ find
//	due │                          │
//	    ▼                          │
//	renewing ──answered──► found ──┘
//
// Its client's request finds it. A renewal that fails for good ends the wait, in any state.
type waiting struct {
	claim driver.Claim
	still func() error // returns an error if the client may no longer wait
	end   time.Time    // of the client's wait
	cut   func()       // ends the wait for a message; nil if there is none

	state  waitingState
	over   chan struct{} // closed when the renewal under way is answered
	failed error         // of the renewal that failed for good
	kept   time.Time     // before the request that began the lease
	lease  time.Duration
	due    time.Time // of the next renewal
}

type waitingState int

const (
	found    waitingState = iota // its lease was begun, and no request is under way
	renewing                     // with others
	finding                      // by a request of its own
)

func newHerds(s *Server) *herds {
	return &herds{s: s, kick: make(chan struct{}, 1), of: map[string][]*waiting{}}
}

// join adds a claim that has been found by a request that was sent at a time.
func (hs *herds) join(c *driver.Claim, still func() error, end, sent time.Time, lease time.Duration) *waiting {
	w := &waiting{claim: *c, still: still, end: end}
	w.keep(sent, lease)
	if !hs.s.d.Traits().Ordered { // nobody stands behind anybody: each request finds its own claim
		return w
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	herd := hs.of[c.Name]
	i, _ := slices.BinarySearchFunc(herd, w, byTicket)
	hs.of[c.Name] = slices.Insert(herd, i, w)
	if !hs.on {
		hs.on = hs.s.life.Go(hs.keep)
	} else if i == 0 || w.due.Before(hs.next) {
		notify(hs.kick)
	}
	return w
}

func byTicket(a, b *waiting) int { return cmp.Compare(a.claim.Ticket, b.claim.Ticket) }

// leave is the reverse of join.
func (hs *herds) leave(w *waiting) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	herd := hs.of[w.claim.Name]
	i := slices.Index(herd, w)
	switch {
	case i < 0:
	case len(herd) == 1:
		if delete(hs.of, w.claim.Name); len(hs.of) == 0 {
			notify(hs.kick)
		}
	default:
		herd = slices.Delete(herd, i, i+1)
		hs.of[w.claim.Name] = herd
		if i == 0 {
			herd[0].leads()
		}
	}
}

// leads makes a claim that has become the first be found by its own request when its lease is due. The claim before it, which
// is gone or holds, ends no sooner. The herds' mu is held.
func (w *waiting) leads() {
	if w.cut != nil {
		time.AfterFunc(time.Until(w.due), w.cut)
	}
}

// keep notes that a request which was sent at a time began a lease. The herds' mu is held, or nobody else knows w.
func (w *waiting) keep(sent time.Time, lease time.Duration) {
	w.state, w.kept, w.lease = found, sent, lease
	w.due = sent.Add(max(lease/3, leastHear))
}

// listens notes how to end a wait for a message, and reports whether the claim is the first of its name here. An error means
// that the wait is over.
func (hs *herds) listens(w *waiting, cut func()) (first bool, err error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	w.cut = cut
	return hs.first(w), w.failed
}

// first reports whether a claim is the first of its name here. The herds' mu is held.
func (hs *herds) first(w *waiting) bool {
	herd := hs.of[w.claim.Name]
	return len(herd) == 0 || herd[0] == w
}

// find begins a request that finds the claim. It waits for a renewal under way: of a claim, one request at a time is made.
func (hs *herds) find(ctx context.Context, w *waiting) error {
	for {
		hs.mu.Lock()
		w.cut = nil
		over, failed := w.over, w.failed
		if w.state != renewing {
			w.state = finding
		}
		state := w.state
		hs.mu.Unlock()
		if failed != nil || state == finding {
			return failed
		}
		select {
		case <-over:
		case <-ctx.Done():
			return driver.Ended(ctx, false)
		}
	}
}

// settle ends a request that found the claim.
func (hs *herds) settle(w *waiting, sent time.Time, lease time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	w.keep(sent, lease)
	if !hs.first(w) && w.due.Before(hs.next) { // keep passed it over
		notify(hs.kick)
	}
}

// keep renews the claims that are due, until nobody waits or the server ends.
func (hs *herds) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-hs.kick:
		case <-hs.s.ending.Done():
			return
		}
		due, next := hs.due(time.Now())
		if next.IsZero() {
			return
		}
		for batch := range slices.Chunk(due, mostOfHerd) {
			if !hs.s.life.Go(func() { hs.renew(batch) }) {
				hs.renew(batch) // it fails, since the server ends
			}
		}
		timer.Reset(time.Until(next))
	}
}

// due returns the claims that are due, the claims of a name together, and when to look again. The zero time means never:
// nobody waits.
func (hs *herds) due(now time.Time) (due []*waiting, next time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.of) == 0 {
		hs.on = false
		return nil, time.Time{}
	}
	hs.next = now.Add(unconfirmed)
	for _, herd := range hs.of {
		for _, w := range herd[1:] {
			switch {
			case w.state != found || w.failed != nil:
			case w.due.After(now.Add(w.lease / joinPart)):
				if w.due.Before(hs.next) {
					hs.next = w.due
				}
			default:
				w.state, w.over = renewing, make(chan struct{})
				due = append(due, w)
			}
		}
	}
	return due, hs.next
}

// renew renews claims by one request.
func (hs *herds) renew(batch []*waiting) {
	var (
		claims  = make([]*driver.Claim, 0, len(batch))
		refused = make([]error, len(batch))
		within  = unconfirmed
	)
	for i, w := range batch {
		if refused[i] = w.still(); refused[i] == nil {
			c := w.claim
			c.Wait = waitingLease(c.TTL, w.end)
			claims, within = append(claims, &c), min(within, w.lease/6)
		}
	}
	ctx, cancel := context.WithTimeout(hs.s.ending, within)
	defer cancel()
	sent := time.Now()
	renewals := hs.s.d.Renew(ctx, claims)
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for i, w := range batch {
		w.state = found
		close(w.over)
		if refused[i] != nil {
			w.fail(refused[i])
		} else {
			hs.answered(w, sent, &renewals[0])
			renewals = renewals[1:]
		}
	}
}

// answered takes the answer to a renewal. A renewal without an answer is repeated, as long as the client has time to ask
// another server before its place is lost. The herds' mu is held.
func (hs *herds) answered(w *waiting, sent time.Time, r *driver.Renewal) {
	switch {
	case r.Err == nil:
		w.keep(sent, r.TTL)
	case hs.s.ending.Err() != nil: // so does each wait
	case driver.OutcomeOf(r.Err) == driver.OutcomeRefused && !driver.IsUnreachable(r.Err):
		w.fail(r.Err)
	case time.Since(w.kept) > w.lease*2/3:
		w.fail(driver.Unreachable(r.Err))
	default:
		w.due = time.Now().Add(max(w.lease/24, leastHear))
	}
	if w.due.Before(hs.next) {
		notify(hs.kick)
	}
}

// fail ends the wait of a claim. The herds' mu is held.
func (w *waiting) fail(err error) {
	w.failed = err
	if w.cut != nil {
		w.cut()
	}
}
