package sqldb

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Bell wakes processes that have the same database open. It is heard by one goroutine at a time.
type Bell interface {
	// Ring is [Ringer.Ring].
	Ring(clients []string)

	// Hear is [Ringer.Hear]. It calls rung too if the database has changed since it was last looked at, so that no ring
	// is missed which comes while nobody sleeps at the bell.
	Hear(ctx context.Context, client string, wanted func() bool, rung, stirred func())

	// Looks says that the database is about to be looked at. It returns a number that is another one after a change,
	// or false if that is not known.
	Looks() (changes uint32, known bool)
}

// A rung is a [lite] with a bell. While the bell tells what there is to tell, it is looked at seldom:
//
//	told ──a look finds a claim that holds, and nobody has rung──► missed
//	  ▲                                                              │
//	  └────────────── no such look for missedFor ────────────────────┘
//
// A process without a bell rings for nobody, and one may die between its change and its ring.
//
// A process that waits takes 3 ms of a processor in a second, and took 69 when it looked every 7 ms: most of that is
// Go's runtime, which looks for work several times after each time that it is woken.
type rung struct {
	*lite
	bell Bell
	last atomic.Int64 // when somebody rang last, in nanoseconds since the Unix epoch

	// Only the poller uses what follows.
	changes uint32    // when the last look began
	stirred time.Time // when somebody last rang, or began to wait here
	missed  time.Time // when a look last found what nobody has rung for
	watched bool      // a queue was, at the last look
}

const (
	rungPause = 250 * time.Millisecond // between two looks while rings come
	rungSoon  = 50 * time.Millisecond  // how long the next one looks more often at first, which keeps it warm
	rungLate  = 10 * time.Millisecond  // how much later than a look a ring may come for what that has found
	missedFor = time.Minute
)

// Ring is that of [Ringer].
func (r *rung) Ring(clients []string) { r.bell.Ring(clients) }

// Hear is that of [Ringer].
func (r *rung) Hear(ctx context.Context, client string, wanted func() bool, rung, stirred func()) {
	r.bell.Hear(ctx, client, wanted, func() {
		r.last.Store(time.Now().UnixNano())
		rung()
	}, stirred)
}

// Gone is that of [Ringer].
func (r *rung) Gone(ctx context.Context, claims []Waiting) (ids []string, err error) {
	states := make([]State, len(claims))
	err = r.reading(ctx, func() error { return r.states(claims, states) })
	for i := range claims {
		if err == nil && states[i] == (State{}) {
			ids = append(ids, claims[i].ID)
		}
	}
	return ids, err
}

// Traits is that of [Store].
func (r *rung) Traits() driver.Traits {
	t := r.lite.Traits()
	t.HearsBreak = true
	return t
}

// Look is that of [Store]. Of a database that has not changed, which the bell tells for less than SQLite, it only asks
// whether it moved; unless the look is to keep this process warm, or asks for what is kept.
func (r *rung) Look(ctx context.Context, g *Glance) (*Sight, error) {
	changes, known := r.bell.Looks()
	asks := g.Fresh || g.Rung || g.Kept || len(g.Names) > 0
	if known && changes == r.changes && !asks && !r.warm() {
		return nil, r.lite.stays()
	}
	s, err := r.lite.Look(ctx, g)
	if err == nil {
		r.changes = changes
	}
	r.saw(g, s)
	return s, err
}

// saw takes note of what a look has found. A fresh one finds what was so before anybody heard.
func (r *rung) saw(g *Glance, s *Sight) {
	r.watched = len(g.Names) > 0
	if g.Rung || g.Came {
		r.stirred = time.Now()
	}
	if s != nil && !g.Rung && !g.Fresh && slices.ContainsFunc(s.States, func(s State) bool { return s.Holds }) {
		r.missed = time.Now()
	}
}

// Pause is that of [Store]. Nobody rings for those who watch a queue.
func (r *rung) Pause(quiet time.Duration, ahead int) time.Duration {
	if late := time.Unix(0, r.last.Load()).Sub(r.missed); -rungPause < late && late < rungLate {
		r.missed = time.Time{} // the ring came, but a look was quicker
	}
	if r.watched || time.Since(r.missed) < missedFor {
		return r.lite.Pause(quiet, ahead)
	}
	if r.warm() && ahead <= 1 {
		return time.Millisecond
	}
	return rungPause
}

// warm reports whether the next one is to be kept warm.
func (r *rung) warm() bool { return time.Since(r.stirred) < rungSoon }
