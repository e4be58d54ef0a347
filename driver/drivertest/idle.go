package drivertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// An Idle is a client whose regular background work is frequent.
type Idle struct {
	driver.Driver // closed by the suite

	// Beats returns how often the client did this work on its present connection.
	Beats func() int
}

var idleCases = []Case{
	{"Idle", "What a client remembers grows neither with the claims that have left nor while it does nothing.", 0, idle},
}

const (
	beforeLeft = 16 // claims that leave before the first count of remembered claims
	moreLeft   = 64 // claims that leave before the second count
	fewBeats   = 6  // after this many beats, a client remembers as many as it ever will, or never forgets any
	manyBeats  = 3 * fewBeats
	beatEvery  = 100 * time.Millisecond // if the store does not count them
)

// idle compares the number of remembered things before and after claims left, and before and after idle time.
func idle(r *run) {
	i := r.store.idle(r)
	defer i.Close()
	tells, ok := i.Driver.(rememberer)
	if !ok {
		return
	}
	leave := func(from, to int) int {
		for n := from; n < to; n++ {
			c := r.claim()
			c.Name = fmt.Sprint(r.name, "/", n)
			r.holds(i, c)
			r.leave(i, c)
		}
		return tells.Remembered()
	}
	before := leave(0, beforeLeft)
	if after := leave(beforeLeft, beforeLeft+moreLeft); after-before > moreLeft/2 {
		r.Errorf("%d things are remembered after %d claims that left, and %d after %d more; want about as many",
			before, beforeLeft, after, moreLeft)
	}
	for again := true; again; again = i.Beats() < manyBeats { // until it has had manyBeats on one connection
		r.until(recovers, "the client does what it does while it is idle", func() bool { return i.Beats() >= fewBeats })
		before := tells.Remembered()
		r.until(recovers, "the client has done that often, or anew", func() bool {
			n := i.Beats()
			return n >= manyBeats || n < fewBeats // it has another connection
		})
		if after := tells.Remembered(); after-before > fewBeats {
			r.Fatalf("%d things are remembered by a client that was idle for %d beats, and %d after %d beats; want about as many",
				before, fewBeats, after, manyBeats)
		}
	}
}

// idle opens a client: the store's own Idle, or a usual client whose beats are counted by a clock.
func (s *Store) idle(t testing.TB) *Idle {
	if s.Idle != nil {
		return s.Idle(t)
	}
	began := time.Now()
	return &Idle{s.Open(t), func() int { return int(time.Since(began) / beatEvery) }}
}
