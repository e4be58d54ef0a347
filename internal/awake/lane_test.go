package awake

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// steady are the ends of so many steps that were on time.
func steady(n int) []time.Duration {
	ends := []time.Duration{0}
	for range n {
		ends = append(ends, ends[len(ends)-1]+step)
	}
	return ends
}

// late makes all ends from one of them on late.
func late(ends []time.Duration, from int, by time.Duration) []time.Duration {
	ends = slices.Clone(ends)
	for i := from; i < len(ends); i++ {
		ends[i] += by
	}
	return ends
}

func TestSlowness(t *testing.T) {
	const ms = time.Millisecond
	each := steady(100)
	for i := range each {
		each[i] *= 3
	}
	for _, test := range []struct {
		name        string
		ends        []time.Duration
		now, length time.Duration
		want        float64
	}{
		{name: "nothing yet", ends: steady(0), now: 0, length: 500 * ms, want: 1},
		{name: "on time", ends: steady(100), now: 1000 * ms, length: 500 * ms, want: 1},
		{name: "each late", ends: each, now: 3000 * ms, length: 500 * ms, want: 3},
		{name: "one late", ends: late(steady(100), 60, 500*ms), now: 1500 * ms, length: 500 * ms, want: 2},
		{name: "one late, of a short limit", ends: late(steady(100), 60, 500*ms), now: 1500 * ms, length: 100 * ms, want: 6},
		{name: "two late, far from each other", ends: late(late(steady(100), 10, 500*ms), 90, 500*ms), now: 2000 * ms, length: 500 * ms, want: 2},
		{name: "now", ends: steady(99), now: 1500 * ms, length: 500 * ms, want: 2},
		{name: "short", ends: steady(9), now: 290 * ms, length: 500 * ms, want: 2.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := slowness(test.ends, test.now, test.length); got != test.want {
				t.Errorf("slowness = %v, want %v", got, test.want)
			}
		})
	}
}

// A failing is a test that is to fail.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		u := watch(f)
		time.Sleep(time.Second + step/2)
		u.Within(500*time.Millisecond, 500*time.Millisecond, "on time")
		u.Within(501*time.Millisecond, 500*time.Millisecond, "the end of %q", "a")
		u.mu.Lock()
		u.ends = late(u.ends, 50, 250*time.Millisecond)
		u.began = u.began.Add(-250 * time.Millisecond)
		u.mu.Unlock()
		u.Within(750*time.Millisecond, 500*time.Millisecond, "beside load")
		u.Within(751*time.Millisecond, 500*time.Millisecond, "the end of b")
		want := []string{
			`the end of "a": it took 501ms; want at most 500ms, which is 500ms times 1.00, as late as timers were meanwhile`,
			`the end of b: it took 751ms; want at most 750ms, which is 500ms times 1.50, as late as timers were meanwhile`,
		}
		if !slices.Equal(f.said, want) {
			t.Errorf("Within says\n%q\nwant\n%q", f.said, want)
		}
	})
}
