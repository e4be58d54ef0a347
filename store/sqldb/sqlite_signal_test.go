package sqldb

import (
	"testing"
	"testing/synctest"
	"time"
)

// While wakeups come, the database is rarely polled, unless somebody changes it without a wakeup.
func TestPauseWhileWoken(t *testing.T) {
	const (
		next, behind = 1, 2
		quiet, soon  = time.Second, 0
		seldom       = wokenPause
		often        = 10 * time.Millisecond
	)
	holds, waits := &PollResult{States: []State{{}, {Holds: true}}}, &PollResult{States: []State{{Ends: 1}}}
	for what, test := range map[string]struct {
		wakes     []time.Duration // before the poll, or after it if negative
		requestOf PollRequest
		result    *PollResult
		after     time.Duration // since the poll
		quiet     time.Duration
		ahead     int
		want      time.Duration
		isMissed  bool
	}{
		"for long":                       {result: nil, quiet: quiet, ahead: next, want: seldom},
		"others change what they have":   {result: waits, quiet: soon, ahead: next, want: seldom},
		"it has come":                    {requestOf: PollRequest{Fresh: true, Came: true}, result: waits, quiet: soon, ahead: next, want: time.Millisecond},
		"it came a while ago":            {requestOf: PollRequest{Fresh: true, Came: true}, result: waits, after: warmFor, quiet: soon, ahead: next, want: seldom},
		"it has come, and is not next":   {requestOf: PollRequest{Fresh: true, Came: true}, result: waits, quiet: soon, ahead: behind, want: seldom},
		"a wakeup comes":                 {wakes: []time.Duration{0}, requestOf: PollRequest{Woken: true}, result: waits, quiet: soon, ahead: next, want: time.Millisecond},
		"a wakeup came":                  {wakes: []time.Duration{0}, requestOf: PollRequest{Woken: true}, result: waits, after: warmFor, quiet: soon, ahead: next, want: seldom},
		"no wakeup":                      {result: holds, quiet: quiet, ahead: next, want: often, isMissed: true},
		"no wakeup, soon after":          {result: holds, after: missedFor - 1, quiet: quiet, ahead: next, want: often, isMissed: true},
		"no wakeup, long ago":            {result: holds, after: missedFor, quiet: quiet, ahead: next, want: seldom, isMissed: true},
		"it held when it came":           {requestOf: PollRequest{Fresh: true, Came: true}, result: holds, after: warmFor, quiet: quiet, ahead: next, want: seldom},
		"the look was quicker":           {wakes: []time.Duration{-time.Millisecond}, result: holds, after: time.Second, quiet: quiet, ahead: next, want: seldom},
		"the look was before the wakeup": {wakes: []time.Duration{time.Millisecond}, result: holds, quiet: quiet, ahead: next, want: seldom},
		"wakeups for others":             {wakes: []time.Duration{time.Second, -time.Second}, result: holds, after: 2 * time.Second, quiet: quiet, ahead: next, want: often, isMissed: true},
		"a queue is watched":             {requestOf: PollRequest{Names: []string{"x"}}, result: waits, quiet: quiet, ahead: 0, want: often},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &signalledStore{lite: &lite{}}
				wake := func(before func(time.Duration) bool) {
					for _, d := range test.wakes {
						if before(d) {
							r.last.Store(time.Now().Add(-d).UnixNano())
						}
					}
				}
				wake(func(d time.Duration) bool { return d >= 0 })
				r.saw(&test.requestOf, test.result)
				wake(func(d time.Duration) bool { return d < 0 })
				time.Sleep(test.after)
				if got := r.Pause(test.quiet, test.ahead); got != test.want {
					t.Errorf("the pause is %v; want %v", got, test.want)
				}
				if got := !r.missed.IsZero(); got != test.isMissed {
					t.Errorf("a wakeup is missed: %v; want %v", got, test.isMissed)
				}
			})
		})
	}
}
