//go:build unix

package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A claim behind many listens later than one that is next, but learns of its turn in time, even if all claims ahead leave at
// once before it listens.
func TestBehindManyListensLater(t *testing.T) {
	t.Parallel()
	const many = 1000
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	var ahead []*driver.Claim
	for i := range many {
		c := claim("name", fmt.Sprint("ahead", i))
		c.Client = "ahead"
		c.TTL, c.Wait = time.Minute, time.Minute // a busy machine takes seconds for all
		enter(t, d, c)
		ahead = append(ahead, c)
	}
	last := claim("name", "last")
	last.Client = "last"
	last.TTL, last.Wait = time.Minute, time.Minute
	begin := time.Now()
	if p, err := d.Enter(timely(t), last); err != nil || p.Holds || p.Ahead != many {
		t.Fatalf("enter = %+v, %v; want a place behind %d", p, err, many)
	}
	for _, c := range ahead {
		leave(t, d, c)
	}
	servertest.Until(t, "the last one listens", func() bool {
		return strings.Contains(fmt.Sprint(s.Redis([]string{"PUBSUB", "CHANNELS"})), "inbox/last")
	})
	if after := time.Since(begin); after < putOffMost {
		t.Errorf("the last one listens after %v; want %v at least", after, putOffMost)
	}
	if p, err := d.Await(timely(t), last); err != nil || p.Holds {
		t.Errorf("await = %+v, %v; want an early return, since nobody is told before he listens", p, err)
	}
	if p, err := d.Enter(timely(t), last); err != nil || !p.Holds {
		t.Errorf("enter = %+v, %v; want that it holds", p, err)
	}
}

// A claim that may be the next to hold listens at once, whatever the number of claims ahead.
func TestPutOff(t *testing.T) {
	for _, test := range []struct {
		weight, first int64 // of the claim, and of the one at the head
		ahead         int
		want          time.Duration
	}{
		{driver.All, driver.All, 1, 0},
		{driver.All, driver.All, putOffFrom - 1, 0},
		{driver.All, driver.All, putOffFrom, putOffFrom * putOffEach},
		{driver.All, driver.All, 100, 25 * time.Millisecond},
		{driver.All, driver.All, 1_000_000, putOffMost},
		{driver.All, 1, 100, 0}, // behind readers that hold
		{driver.All, 0, 100, 0}, // the server did not return the claim at the head
		{1, driver.All, 100, 0}, // a reader behind a writer, and perhaps beside other readers
		{1, 1, 100, 0},          // a permit
		{3, 2, 100, 0},
	} {
		c, p := &driver.Claim{Weight: test.weight}, &driver.Place{Ahead: test.ahead, Blocker: driver.ClaimInfo{Weight: test.first}}
		if got := putOff(c, p); got != test.want {
			t.Errorf("weight %d behind %d claims, the first with weight %d: %v; want %v", test.weight, test.ahead, test.first, got, test.want)
		}
	}
}
