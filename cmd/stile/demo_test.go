package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/tickets"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

func TestDemo(t *testing.T) {
	u := newAccount(t)
	out := u.demo("tickets", "--processes", "5", "--tickets", "40")
	for _, want := range []string{
		`(?m)^5 processes sell 40 tickets from one file\.$`,
		`(?m)^  40 tickets were sold \d+ times in \S+: \d+ of them more than once, number \d+ to \d+ customers\.$`,
		`(?m)^  2 processes browsed meanwhile\. In \d+ of \d+ looks, what was sold and what was left were not 40 together\.$`,
		`(?m)^With a lock, kept in sqlite:///`,
		`(?m)^  2 processes browsed meanwhile, as readers\. In each of \d+ looks, what was sold and what was left were 40 together\.$`,
		`(?m)^  40 tickets sold in \S+; waits p50 \S+, p99 \S+\.$`,
		`(?m)^  Exactly 40, none twice\. The tokens rose with every sale, from \d+ to \d+\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On each store no ticket is sold twice with the lock, and without it some are.
func TestDemoTickets(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			if store == "redis" {
				u.at("redis://" + servertest.Redis(t).Addr)
			}
			picture := filepath.Join(u.home, "tickets.svg")
			var v tickets.TicketsView
			if err := json.Unmarshal([]byte(u.demo("tickets", "--quick", "--json", "--svg", picture)), &v); err != nil {
				t.Fatal(err)
			}
			if v.Processes != 8 || v.Browsers != 2 || v.Tickets != 20 || len(v.With.Each) != 8 {
				t.Errorf("got %+v; want 20 tickets and 8 processes", v)
			}
			if f := v.Without; f.Twice == 0 || f.Sales <= 20 || f.Torn == 0 {
				t.Errorf("without lock: %+v; want tickets sold twice, and looks that saw it", f)
			}
			if l := v.With; l.Twice != 0 || l.Sales != 20 || !l.Rising || l.First == l.Last || l.Looks < 4 || l.Torn != 0 {
				t.Errorf("with lock: %+v; want 20 sales, none twice, rising tokens, and looks of two browsers in the middle and after the end", l)
			}
			demotest.WantPicture(t, picture, "without lock: seller 1", "with lock: seller 6")
		})
	}
}

// Where the store has no readers nobody browses, and the demo says so if somebody was to.
func TestDemoWithoutReaders(t *testing.T) {
	t.Parallel()
	u := newAccount(t).at("redis://" + servertest.Redis(t).Addr + "?layout=setnx")
	for browsers, want := range map[string]bool{"0": false, "1": true} {
		out := u.demo("tickets", "--quick", "--browsers", browsers)
		if got := strings.Contains(out, "This store has no readers, so nobody browses.\n"); got != want || strings.Contains(out, "browsed") {
			t.Errorf("%s browsers: said %v, want %v, in\n%s", browsers, got, want, out)
		}
	}
}

// A reader that goes away in the middle leaves nothing behind.
func TestDemoReaderGone(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	cmd := exec.Command(binary, "demo", "tickets", "--quick", "--processes", "2")
	cmd.Env, cmd.Dir, cmd.Stdout = u.env, u.home, write
	err = cmd.Run()
	write.Close()
	if code := cmd.ProcessState.ExitCode(); code != exit.Output {
		t.Errorf("%v; want status %d", err, exit.Output)
	}
	if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A demo that is a program of its own is named with the ways to run it, and is there.
func TestDemosElsewhere(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	for _, name := range elsewhere {
		for _, args := range [][]string{{"demo", name}, {"demo", name, "--quick", "--url", "x://y"}, {"demo", name, "--help"}} {
			want := "go run github.com/stilelock/stile/examples/demo@latest " + name + "; or in a clone with: go run ./examples/demo " + name + "\n"
			if r := u.run(args...); r.code != exit.BadUsage || r.out != "" || !strings.HasSuffix(r.err, want) || strings.Count(r.err, "\n") != 1 {
				t.Errorf("stile %q: %+v; want one line that ends with %q", args, r, want)
			}
		}
		if _, err := os.Stat("../../examples/demo/internal/" + name); err != nil {
			t.Error(err)
		}
	}
}

// In ZooKeeper the lock of a process that died is free when its session is over, and the server says how short that can be.
func TestDemoGoesBySessions(t *testing.T) {
	t.Parallel()
	slow := "zk://" + servertest.ZooKeeper(t, "minSessionTimeout=4000").Addr
	r := newAccount(t).at(slow).run("demo", "tickets", "--quick", "--chaos")
	if r.code != exit.BadUsage || !strings.Contains(r.err, "--quick takes at most 5s, and the shortest lease in ") || !strings.Contains(r.err, " is 4s: leave") {
		t.Errorf("%+v; want the session time refused", r)
	}
}
