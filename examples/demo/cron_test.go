//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/examples/demo/internal/cron"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/servertest"
)

// With the lock each tick runs once, even if its machine is killed, and the stuck run is cut off.
func TestCronDemo(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			url := "sqlite://" + filepath.Join(u.home, "locks.db")
			if store == "redis" {
				url = "redis://" + servertest.Redis(t).Addr
			}
			u.at(url)
			var v cron.CronDemoView
			if err := json.Unmarshal([]byte(u.demo("cron", "--quick", "--json", "--svg", u.home+"/cron.svg")), &v); err != nil {
				t.Fatal(err)
			}
			demotest.WantPicture(t, u.home+"/cron.svg", "without lock: machine 1", "with lock: machine 3", "killed", "stuck")
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
			for _, name := range u.names("demo/cron/") {
				if strings.HasSuffix(name, "/last") || strings.HasSuffix(name, "/copy") {
					t.Errorf("a record is left behind: %s", name)
				}
			}
		})
	}
}

func TestCronDemoSays(t *testing.T) {
	t.Parallel()
	out := newUser(t).demo("cron", "--quick", "--machines", "4")
	wantTexts(t, out,
		"4 machines have a job that is due each second, and so have 4 others with a lock, kept in sqlite://",
		"WITHOUT LOCK  WITH LOCK\n",
		"Without a lock, ", " ticks ran more than once.\n",
		" was killed in its run, and machine ",
		" was cut off after 1.5s, and the ticks behind it ran.\n",
	)
}

// The machines end with the demonstration.
func TestCronDemoInterrupted(t *testing.T) {
	t.Parallel()
	for signal := range endings {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := newUser(t).start("cron")
			var pids []int
			servertest.Until(t, "all machines are there", func() bool {
				pids, _ = demotest.Children(t, p.cmd.Process.Pid)
				return len(pids) == 6
			})
			p.wantEnded(signal, pids)
		})
	}
}
