package sqldb

import (
	"testing"
	"testing/synctest"
	"time"
)

// While rings come, the database is looked at seldom; not so if somebody changes it who does not ring.
func TestPauseWhileRung(t *testing.T) {
	const (
		next, behind = 1, 2
		quiet, soon  = time.Second, 0
		seldom       = rungPause
		often        = 10 * time.Millisecond
	)
	holds, waits := &Sight{States: []State{{}, {Holds: true}}}, &Sight{States: []State{{Ends: 1}}}
	for what, test := range map[string]struct {
		rings    []time.Duration // before the look, or after it if negative
		glance   Glance
		sight    *Sight
		after    time.Duration // since the look
		quiet    time.Duration
		ahead    int
		want     time.Duration
		isMissed bool
	}{
		"for long":                     {sight: nil, quiet: quiet, ahead: next, want: seldom},
		"others change what they have": {sight: waits, quiet: soon, ahead: next, want: seldom},
		"it has come":                  {glance: Glance{Fresh: true, Came: true}, sight: waits, quiet: soon, ahead: next, want: time.Millisecond},
		"it came a while ago":          {glance: Glance{Fresh: true, Came: true}, sight: waits, after: rungSoon, quiet: soon, ahead: next, want: seldom},
		"it has come, and is not next": {glance: Glance{Fresh: true, Came: true}, sight: waits, quiet: soon, ahead: behind, want: seldom},
		"somebody rings":               {rings: []time.Duration{0}, glance: Glance{Rung: true}, sight: waits, quiet: soon, ahead: next, want: time.Millisecond},
		"somebody rang":                {rings: []time.Duration{0}, glance: Glance{Rung: true}, sight: waits, after: rungSoon, quiet: soon, ahead: next, want: seldom},
		"nobody rings":                 {sight: holds, quiet: quiet, ahead: next, want: often, isMissed: true},
		"nobody rings, soon after":     {sight: holds, after: missedFor - 1, quiet: quiet, ahead: next, want: often, isMissed: true},
		"nobody rings, long ago":       {sight: holds, after: missedFor, quiet: quiet, ahead: next, want: seldom, isMissed: true},
		"it held when it came":         {glance: Glance{Fresh: true, Came: true}, sight: holds, after: rungSoon, quiet: quiet, ahead: next, want: seldom},
		"the look was quicker":         {rings: []time.Duration{-time.Millisecond}, sight: holds, after: time.Second, quiet: quiet, ahead: next, want: seldom},
		"the look was before the ring": {rings: []time.Duration{time.Millisecond}, sight: holds, quiet: quiet, ahead: next, want: seldom},
		"rings for others":             {rings: []time.Duration{time.Second, -time.Second}, sight: holds, after: 2 * time.Second, quiet: quiet, ahead: next, want: often, isMissed: true},
		"a queue is watched":           {glance: Glance{Names: []string{"x"}}, sight: waits, quiet: quiet, ahead: 0, want: often},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rung{lite: &lite{}}
				ring := func(before func(time.Duration) bool) {
					for _, d := range test.rings {
						if before(d) {
							r.last.Store(time.Now().Add(-d).UnixNano())
						}
					}
				}
				ring(func(d time.Duration) bool { return d >= 0 })
				r.saw(&test.glance, test.sight)
				ring(func(d time.Duration) bool { return d < 0 })
				time.Sleep(test.after)
				if got := r.Pause(test.quiet, test.ahead); got != test.want {
					t.Errorf("the pause is %v; want %v", got, test.want)
				}
				if got := !r.missed.IsZero(); got != test.isMissed {
					t.Errorf("a ring is missed: %v; want %v", got, test.isMissed)
				}
			})
		})
	}
}
