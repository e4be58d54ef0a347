package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// With the lock each tick runs once, also that of the machine that is killed, and the stuck run is cut off.
func TestCronDemo(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			url := "sqlite://" + filepath.Join(u.home, "locks.db")
			if store == "redis" {
				url = "redis://" + servertest.Redis(t).Addr
			}
			u.at(url)
			var v cronDemoView
			if err := json.Unmarshal([]byte(u.demo("cron", "--quick", "--json", "--svg", u.home+"/cron.svg")), &v); err != nil {
				t.Fatal(err)
			}
			wantPicture(t, u.home+"/cron.svg", "without lock: machine 1", "with lock: machine 3", "killed", "stuck")
			if len(v.Columns) != 2 || v.Machines != 3 || v.Lease != 1 || v.KilledAt != 1 || v.StuckAt != 2 {
				t.Fatalf("got %+v", v)
			}
			free, locked := v.Columns[0], v.Columns[1]
			if free.More < 2 || free.Runs < 6 || free.CutOff != 0 {
				t.Errorf("without lock: %+v; want two ticks that all machines ran", free)
			}
			if locked.Once < 2 || locked.More != 0 || locked.CutOff != 1 || locked.Over <= 0 || locked.Runs != locked.Ticks+1 {
				t.Errorf("with lock: %+v; want each tick run once but for the stuck one, and one run again", locked)
			}
			if out := u.must("ls"); strings.Contains(out, "/last") || strings.Contains(out, "/copy") {
				t.Errorf("a record is left behind: %s", out)
			}
			if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestCronDemoSays(t *testing.T) {
	t.Parallel()
	out := newAccount(t).demo("cron", "--quick", "--machines", "4")
	for _, want := range []string{
		"4 machines have a job that is due each second, and so have 4 others with a lock, kept in sqlite://",
		"WITHOUT LOCK  WITH LOCK\n",
		"Without a lock, 2 of ", " ticks ran more than once.\n",
		" was killed in its run, and machine ",
		" was cut off after 1.5s, and the ticks behind it ran.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// The machines end with the demonstration.
func TestCronDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		signal syscall.Signal
		want   int
	}{{syscall.SIGTERM, 143}, {syscall.SIGKILL, 137}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			p := newAccount(t).start("demo", "cron")
			var pids []int
			until(t, "all machines are there", func() bool {
				pids, _ = children(t, p.cmd.Process.Pid)
				return len(pids) == 6
			})
			p.signal(tt.signal)
			if got := p.wait(); got != tt.want || p.stderr.String() != "" {
				t.Errorf("status %d, %q; want %d and nothing", got, p.stderr, tt.want)
			}
			until(t, "no process is left", func() bool { return living(pids) == nil })
		})
	}
}

// What goes wrong is found, and says why.
func TestJudgeTicks(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(1000+n), 0) }
	free := func() *hall { return &hall{ticks: []*tickPast{{Tick: at(0), Done: 3}}} }
	locked := func() *hall {
		return &hall{name: "x", killAt: 0, stickAt: 1, ticks: []*tickPast{
			{Tick: at(0), Runs: []tickRun{{machine: 1, token: 10}, {machine: 2, token: 20}}, Done: 1},
			{Tick: at(1), Runs: []tickRun{{machine: 2, token: 30}}, CutOff: 1},
			{Tick: at(2), Runs: []tickRun{{machine: 3, token: 40}}, Done: 1},
		}}
	}
	for _, tt := range []struct {
		name  string
		spoil func(free, locked *hall)
		want  string
	}{
		{"right", func(*hall, *hall) {}, ""},
		{"last under way", func(_, l *hall) { l.ticks[2].Done = 0 }, ""},
		{"twice", func(_, l *hall) { l.ticks[0].Done = 2 }, "with the lock, tick 00:16:40 came to its end 2 times"},
		{"never", func(_, l *hall) { l.ticks[2].Done, l.ticks = 0, append(l.ticks, &tickPast{Tick: at(3), Done: 1}) }, "with the lock, tick 00:16:42 did not come to its end"},
		{"token", func(_, l *hall) { l.ticks[1].Runs[0].token = 15 }, "with the lock, the run of 00:16:41 has token 15 after 20"},
		{"tokens need not rise", func(_, l *hall) { l.ticks[1].Runs[0].token, l.tokenless = 15, true }, ""},
		{"not again", func(_, l *hall) { l.ticks[0].Runs = l.ticks[0].Runs[:1] }, "with the lock, tick 00:16:40 was not run again after its machine was killed"},
		{"not cut off", func(_, l *hall) { l.ticks[1].CutOff = 0 }, "with the lock, the stuck run of 00:16:41 was not cut off"},
		{"left out", func(_, l *hall) { l.ticks[2].Tick = at(3) }, "with the lock, tick 00:16:43 came after 00:16:41"},
		{"shows nothing", func(f, _ *hall) { f.ticks[0].Done = 1 }, "without a lock every tick was run once, so that this shows nothing"},
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
