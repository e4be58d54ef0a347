package sqldb

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Signal wakes processes that have the same database open. One goroutine at a time listens to it.
type Signal interface {
	// Wake is [Waker.Wake].
	Wake(clients []string)

	// Listen is [Waker.Listen]. It also calls woken if the database has changed since the last poll began, so that it misses
	// no wakeup between two sleeps.
	Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func())

	// BeforePoll says that a poll is about to begin. It returns a number that differs after each change, or false if it is
	// unknown.
	BeforePoll() (changes uint32, known bool)
}

// A signalledStore is a [lite] with a signal. While wakeups come, it rarely polls:
//
//	woken ──a poll finds a claim that holds without a wakeup──► missed
//	  ▲                                                           │
//	  └────────────── no such poll for missedFor ─────────────────┘
//
// A process without a signal wakes nobody, and a process may die between its change and its wakeup.
//
// A waiting process takes 3 ms of a processor in a second, in place of 69 with a poll every 7 ms: most of that is Go's
// runtime, which looks for work several times after each wakeup.
type signalledStore struct {
	*lite
	signal Signal
	last   atomic.Int64 // when a wakeup last came, in nanoseconds since the Unix epoch

	// Only the poller uses the fields below.
	changes uint32    // the count when the last poll began
	active  time.Time // when the last wakeup came, or a waiter began to wait in this process
	missed  time.Time // when a poll last found a change without a wakeup
	watched bool      // a queue was watched at the last poll
}

const (
	wokenPause = 250 * time.Millisecond // between two polls while wakeups come
	warmFor    = 50 * time.Millisecond  // how long the next waiter first polls more often, to keep its processor awake
	wakeLate   = 10 * time.Millisecond  // how much later than a poll the wakeup for a change may come that the poll has seen
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

// Poll implements [Store]. While the signal shows that nothing has changed, which costs less than asking SQLite, it only
// checks whether the database has moved, unless the poll keeps this process warm or asks for kept claims.
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

// saw notes the result of a poll. A fresh poll may find changes from before the driver listened.
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
		r.missed = time.Time{} // the wakeup came, but a poll was faster
	}
	if r.watched || time.Since(r.missed) < missedFor {
		return r.lite.Pause(quiet, ahead)
	}
	if r.warm() && ahead <= 1 {
		return time.Millisecond
	}
	return wokenPause
}

// warm reports whether the next waiter must be kept warm.
func (r *signalledStore) warm() bool { return time.Since(r.active) < warmFor }
