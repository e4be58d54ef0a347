package sqldb

import (
	"testing"
	"testing/synctest"
	"time"
)

// still is a store that needs no polls.
type still struct{ Store }

func (still) Pause(time.Duration, int) time.Duration { return time.Hour }

func TestRhythm(t *testing.T) {
	const news, none = true, false
	synctest.Test(t, func(t *testing.T) {
		var r rhythm
		r.begin()
		for i, step := range []struct {
			what         string
			after        time.Duration
			woken, fresh bool
			wantsKept    bool
			says         bool
			pause        time.Duration // the longest time until the next poll
		}{
			{"a claim begins to wait", 0, false, true, true, news, time.Hour},
			{"nothing has changed", 50 * time.Millisecond, false, false, false, none, time.Hour},
			{"something has", 10 * time.Millisecond, false, false, false, news, 40 * time.Millisecond},
			{"the look that is owed", 40 * time.Millisecond, false, false, true, news, time.Hour},
			{"a wakeup without news", 99 * time.Millisecond, true, false, false, none, time.Millisecond},
			{"the look that is owed for it", time.Millisecond, false, false, true, none, time.Hour},
			{"somebody else begins to wait", 50 * time.Millisecond, false, true, false, news, 50 * time.Millisecond},
			{"the look that is owed for that", 50 * time.Millisecond, false, false, true, none, time.Hour},
			{"quiet", 499 * time.Millisecond, false, false, false, none, time.Hour},
			{"for long", time.Millisecond, false, false, true, none, time.Hour},
		} {
			time.Sleep(step.after)
			g := &PollRequest{Woken: step.woken, Claims: make([]Waiting, 1)}
			r.asks(g, step.fresh)
			if g.Kept != step.wantsKept || g.Fresh != step.fresh {
				t.Errorf("%d, %s: it asks for kept claims: %v, fresh: %v", i, step.what, g.Kept, g.Fresh)
			}
			if pause := r.pause(still{}, g, step.says, nil); pause != step.pause {
				t.Errorf("%d, %s: the pause is %v; want %v", i, step.what, pause, step.pause)
			}
		}

		// A claim that is kept ends.
		r.due = time.Now().Add(time.Minute)
		claims, names := &PollRequest{Claims: make([]Waiting, 1)}, &PollRequest{Names: []string{"watched"}}
		if pause := r.pause(still{}, claims, true, nil); pause > time.Minute {
			t.Errorf("the pause is %v; want no more than until the claim ends", pause)
		}
		time.Sleep(time.Minute)
		if r.asks(claims, false); !claims.Fresh || !claims.Kept {
			t.Errorf("when it ends, it asks for %+v", claims)
		}
		if r.asks(names, false); names.Kept {
			t.Error("it asks for kept claims where nobody waits for one")
		}
	})
}

// A waiting claim that enters again is no news, even if another claim of the process enters meanwhile.
func TestEnteringAgainIsNoNews(t *testing.T) {
	const seconds = time.Second
	synctest.Test(t, func(t *testing.T) {
		var r rhythm
		for i, step := range []struct {
			what   string
			after  time.Duration
			claims string // one letter each
			fresh  bool
			quiet  time.Duration // since the last news
		}{
			{"one comes", 0, "a", true, 0},
			{"it waits", 1 * seconds, "a", false, 1 * seconds},
			{"for longer", 2 * seconds, "a", false, 3 * seconds},
			{"it enters again", 1 * seconds, "a", true, 4 * seconds},
			{"another one comes", 1 * seconds, "ab", true, 0},
			{"the first enters, and does not wait meanwhile", 1 * seconds, "b", false, 1 * seconds},
			{"it is back", 1 * seconds, "ab", true, 2 * seconds},
			{"nobody waited for long", 5 * seconds, "a", true, 0},
		} {
			time.Sleep(step.after)
			if step.fresh {
				r.begin()
			}
			g := &PollRequest{}
			for _, id := range step.claims {
				g.Claims = append(g.Claims, Waiting{ID: string(id)})
			}
			r.asks(g, step.fresh)
			r.pause(still{}, g, step.fresh, nil)
			if quiet := time.Since(r.news); quiet != step.quiet || g.Came != (quiet == 0) {
				t.Errorf("%d, %s: quiet for %v, and somebody came: %v; want %v", i, step.what, quiet, g.Came, step.quiet)
			}
		}
	})
}

// A waiter that nobody wakes is late by at most a hundredth of its waiting time.
func TestSlow(t *testing.T) {
	for quiet, want := range map[time.Duration]time.Duration{
		0: 7 * time.Millisecond, time.Second: 10 * time.Millisecond, 20 * time.Second: 200 * time.Millisecond, time.Hour: 250 * time.Millisecond,
	} {
		if got := Slow(quiet, 7*time.Millisecond, 250*time.Millisecond); got != want {
			t.Errorf("after %v, the pause is %v; want %v", quiet, got, want)
		}
	}
}
