//go:build unix

package cron

import (
	"testing"
	"time"
)

// What goes wrong is found, and says why.
func TestJudgeTicks(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(1000+n), 0) }
	free := func() *fleet { return &fleet{ticks: []*tickPast{{Tick: at(0), Done: 3}}} }
	locked := func() *fleet {
		return &fleet{name: "x", killAt: 0, stickAt: 1, ticks: []*tickPast{
			{Tick: at(0), Runs: []tickRun{{machine: 1, token: 10}, {machine: 2, token: 20}}, Done: 1},
			{Tick: at(1), Runs: []tickRun{{machine: 2, token: 30}}, CutOff: 1},
			{Tick: at(2), Runs: []tickRun{{machine: 3, token: 40}}, Done: 1},
		}}
	}
	for _, tt := range []struct {
		name  string
		spoil func(free, locked *fleet)
		want  string
	}{
		{"right", func(*fleet, *fleet) {}, ""},
		{"last under way", func(_, l *fleet) { l.ticks[2].Done = 0 }, ""},
		{"twice", func(_, l *fleet) { l.ticks[0].Done = 2 }, "with the lock, tick 00:16:40 came to its end 2 times"},
		{"never", func(_, l *fleet) { l.ticks[2].Done, l.ticks = 0, append(l.ticks, &tickPast{Tick: at(3), Done: 1}) }, "with the lock, tick 00:16:42 did not come to its end"},
		{"token", func(_, l *fleet) { l.ticks[1].Runs[0].token = 15 }, "with the lock, the run of 00:16:41 has token 15 after 20"},
		{"tokens need not rise", func(_, l *fleet) { l.ticks[1].Runs[0].token, l.tokenless = 15, true }, ""},
		{"not again", func(_, l *fleet) { l.ticks[0].Runs = l.ticks[0].Runs[:1] }, "with the lock, tick 00:16:40 was not run again after its machine was killed"},
		{"not cut off", func(_, l *fleet) { l.ticks[1].CutOff = 0 }, "with the lock, the stuck run of 00:16:41 was not cut off"},
		{"left out", func(_, l *fleet) { l.ticks[2].Tick = at(3) }, "with the lock, tick 00:16:43 came after 00:16:41"},
		{"shows nothing", func(f, _ *fleet) { f.ticks[0].Done = 1 }, "without a lock every tick was run once, so that this shows nothing"},
	} {
		f, l := free(), locked()
		tt.spoil(f, l)
		got := ""
		if err := judgeTicks(f, l); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
