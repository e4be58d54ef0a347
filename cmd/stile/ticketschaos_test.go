package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/tickets"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// With lock and guard no fault makes a ticket sell twice. With the lock alone the late write sells one again.
func TestTicketsChaos(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			if store == "redis" {
				u.at("redis://" + servertest.Redis(t).Addr)
			}
			picture := filepath.Join(u.home, "chaos.svg")
			var v tickets.ChaosView
			if err := json.Unmarshal([]byte(u.demo("tickets", "--chaos", "--quick", "--json", "--processes", "4", "--svg", picture)), &v); err != nil {
				t.Fatal(err)
			}
			if v.Processes != 4 || v.Tickets != 20 || v.Browsers != 2 || v.Lease != 1 || len(v.Parts) != 3 {
				t.Fatalf("got %+v", v)
			}
			free, locked, guarded := v.Parts[0], v.Parts[1], v.Parts[2]
			if free.Twice == 0 || free.Sales <= 20 {
				t.Errorf("without lock: %+v; want tickets sold twice", free)
			}
			if locked.Twice == 0 || locked.Sales != 20+locked.Twice || locked.Late != 10 || locked.Torn == 0 || len(locked.Refused) > 0 {
				t.Errorf("with lock: %+v; want ticket 10 sold late and twice, and looks that saw it", locked)
			}
			if guarded.Twice > 0 || guarded.Sales != 20 || guarded.Late != 0 || guarded.Looks < 4 || guarded.Torn != 0 || len(guarded.Refused) != 1 ||
				!strings.HasPrefix(guarded.Refused[0], `"left": token `) {
				t.Errorf("with lock and guard: %+v; want each ticket sold once, and one late write refused", guarded)
			}
			for _, p := range v.Parts[1:] {
				if p.Killed == 0 || p.Stopped == 0 || p.Killed == p.Stopped || p.Others == 0 || p.Next < 0.4 || p.Pause < 0.4 {
					t.Errorf("%s: %+v; want one seller killed and another stopped, for most of a lease each", p.Part, p)
				}
			}
			demotest.WantPicture(t, picture, "with lock: seller 1", "with lock and guard: seller 4", "killed", "stopped", "sold again", "refused")
			if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestTicketsChaosSays(t *testing.T) {
	t.Parallel()
	out := newAccount(t).demo("tickets", "--chaos", "--quick", "--processes", "3")
	for _, want := range []string{
		"3 processes sell 20 tickets from one file. The lock is kept in sqlite://",
		"WITHOUT LOCK  WITH LOCK  WITH LOCK AND GUARD\n",
		" was stopped past its lease, sold ticket 10 after ", " sales of others, and wrote that 9 were left.\n",
		`With lock and guard, the late sale was refused: "left": token `,
		"With lock and guard, each of 20 tickets was sold exactly once.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Without tokens there is no guard, and the demo says so.
func TestTicketsChaosWithoutTokens(t *testing.T) {
	t.Parallel()
	out := newAccount(t).at("memcached://"+servertest.Memcached(t, "-M").Addr).demo("tickets", "--chaos", "--processes", "3", "--tickets", "12")
	for _, want := range []string{demo.NoTokens, "WITHOUT LOCK  WITH LOCK\n", " was stopped past its lease, sold ticket "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "GUARD") {
		t.Errorf("there is a guard in\n%s", out)
	}
}

// The sellers end with the demo, also the one that is stopped.
func TestTicketsChaosInterrupted(t *testing.T) {
	t.Parallel()
	p, pids := newAccount(t).at("redis://" + servertest.Redis(t).Addr).stopping()
	p.signal(syscall.SIGTERM)
	if got := p.wait(); got != 143 || p.stderr.String() != "" {
		t.Errorf("status %d, %q; want 143 and nothing", got, p.stderr)
	}
	until(t, "no process is left", func() bool { return demotest.Living(pids) == nil })
}

// A store that vanishes in the middle: the demo reports the known and the unknown facts.
func TestTicketsChaosStoreVanishes(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	p, _ := newAccount(t).at("redis://" + server.Addr).stopping()
	server.Kill()
	got := p.wait()
	for _, want := range []string{
		"stile: with lock", "; known: with lock", " tickets of 100 were sold, 0 of them more than once",
		"; unknown: whether the store still has claims below demo/tickets/", ", which end with their leases of 2s\n",
	} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("no %q in %s", want, p.stderr)
		}
	}
	if got != exit.Store || strings.Count(p.stderr.String(), "\n") != 1 {
		t.Errorf("status %d, %s; want %d and one line", got, p.stderr, exit.Store)
	}
}

// stopping starts the demo, and returns it while a holder of the lock is stopped.
func (u *account) stopping() (p *process, pids []int) {
	u.t.Helper()
	p = u.start("demo", "tickets", "--chaos", "--processes", "3")
	until(u.t, "a process is stopped while it holds", func() bool {
		var stopped int
		pids, stopped = demotest.Children(u.t, p.cmd.Process.Pid)
		return stopped != 0 && strings.Contains(u.must("ls"), "demo/tickets/")
	})
	return p, pids
}
