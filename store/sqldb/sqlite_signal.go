package sqldb

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Signal wakes processes that have the same database open. It is heard by one goroutine at a time.
type Signal interface {
	// Wake is [Waker.Wake].
	Wake(clients []string)

	// Listen is [Waker.Listen]. It also calls woken if the database has changed since the last poll began, so that a
	// wakeup is not missed which comes between two sleeps.
	Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func())

	// BeforePoll says that the database is about to be looked at. It returns a number that is another one after a change,
	// or false if that is not known.
	BeforePoll() (changes uint32, known bool)
}

// A signalledStore is a [lite] with a signal. While wakeups come, it polls seldom:
//
//	woken ──a poll finds a claim that holds without a wakeup──► missed
//	  ▲                                                           │
//	  └────────────── no such poll for missedFor ─────────────────┘
//
// A process without a signal wakes nobody, and a process may die between its change and its wakeup.
//
// A process that waits takes 3 ms of a processor in a second, and took 69 when it polled every 7 ms: most of that is
// Go's runtime, which looks for work several times after each time that it is woken.
type signalledStore struct {
	*lite
	signal Signal
	last   atomic.Int64 // when a wakeup last came, in nanoseconds since the Unix epoch

	// Only the poller uses what follows.
	changes uint32    // when the last poll began
	active  time.Time // when the last wakeup came, or a waiter began to wait here
	missed  time.Time // when a poll last found a change for which no wakeup had come
	watched bool      // a queue was, at the last look
}

const (
	wokenPause = 250 * time.Millisecond // between two polls while wakeups come
	warmFor    = 50 * time.Millisecond  // how long the next waiter polls more often at first, which keeps its process warm
	wakeLate   = 10 * time.Millisecond  // how much later than a poll the wakeup may come for a change that the poll found
	missedFor  = time.Minute
)

// Wake implements [Waker].
func (r *signalledStore) Wake(clients []string) { r.signal.Wake(clients) }

// Listen implements [Waker].
func (r *signalledStore) Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func()) {
	r.signal.Listen(ctx, client, wanted, func() {
		r.last.Store(time.Now().UnixNano())
		woken()
	}, recheck)
}

// Gone implements [Waker].
func (r *signalledStore) Gone(ctx context.Context, claims []Waiting) (ids []string, err error) {
	states := make([]State, len(claims))
	err = r.reading(ctx, func() error { return r.states(claims, states) })
	for i := range claims {
		if err == nil && states[i] == (State{}) {
			ids = append(ids, claims[i].ID)
		}
	}
	return ids, err
}

// Traits implements [Store].
func (r *signalledStore) Traits() driver.Traits {
	t := r.lite.Traits()
	t.HearsBreak = true
	return t
}

// Poll implements [Store]. While the signal shows that nothing has changed, which costs less than asking SQLite, it
// only checks whether the database has moved, unless the poll keeps this process warm or asks for kept claims.
func (r *signalledStore) Poll(ctx context.Context, g *PollRequest) (*PollResult, error) {
	changes, known := r.signal.BeforePoll()
	asks := g.Fresh || g.Woken || g.Kept || len(g.Names) > 0
	if known && changes == r.changes && !asks && !r.warm() {
		return nil, r.lite.stays()
	}
	s, err := r.lite.Poll(ctx, g)
	if err == nil {
		r.changes = changes
	}
	r.saw(g, s)
	return s, err
}

// saw notes the result of a poll. A fresh poll may find changes from before anybody listened.
func (r *signalledStore) saw(g *PollRequest, s *PollResult) {
	r.watched = len(g.Names) > 0
	if g.Woken || g.Came {
		r.active = time.Now()
	}
	if s != nil && !g.Woken && !g.Fresh && slices.ContainsFunc(s.States, func(s State) bool { return s.Holds }) {
		r.missed = time.Now()
	}
}

// Pause implements [Store]. Nobody wakes a client that watches a queue.
func (r *signalledStore) Pause(quiet time.Duration, ahead int) time.Duration {
	if late := time.Unix(0, r.last.Load()).Sub(r.missed); -wokenPause < late && late < wakeLate {
		r.missed = time.Time{} // the wakeup came, but a poll was quicker
	}
	if r.watched || time.Since(r.missed) < missedFor {
		return r.lite.Pause(quiet, ahead)
	}
	if r.warm() && ahead <= 1 {
		return time.Millisecond
	}
	return wokenPause
}

// warm reports whether the next one is to be kept warm.
func (r *signalledStore) warm() bool { return time.Since(r.active) < warmFor }
