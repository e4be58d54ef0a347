package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/payment"
	"github.com/stilelock/stile/cmd/stile/internal/theatre"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// Each order but the one whose process was stopped is charged once with the lock, and that one too with the guard.
func TestPayment(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			if store == "redis" {
				u.at("redis://" + servertest.Redis(t).Addr)
			}
			var v payment.PaymentView
			if err := json.Unmarshal([]byte(u.demo("payment", "--quick", "--json", "--orders", "7", "--processes", "3", "--svg", u.home+"/payment.svg")), &v); err != nil {
				t.Fatal(err)
			}
			wantPicture(t, u.home+"/payment.svg", "with lock: process 1", "stopped", "killed", "charged again", "refused")
			if len(v.Columns) != 3 || v.Orders != 7 || v.Processes != 3 || v.Lease != 1 || v.StoppedAt != 4 || v.KilledAt != 5 {
				t.Fatalf("got %+v", v)
			}
			free, locked, guarded := v.Columns[0], v.Columns[1], v.Columns[2]
			if !slices.Contains(free.Twice, 4) || free.Taken <= free.Price {
				t.Errorf("without lock: %+v; want order 4 charged more than once", free)
			}
			if !slices.Equal(locked.Twice, []int{4}) || locked.Once != 6 || locked.Taken != locked.Price+payment.PriceOf(4) || len(locked.Refused) > 0 {
				t.Errorf("with lock: %+v; want only order 4 charged more than once", locked)
			}
			if len(guarded.Twice) > 0 || guarded.Once != 7 || guarded.Taken != guarded.Price || len(guarded.Refused) != 1 ||
				!strings.HasPrefix(guarded.Refused[0], `guard: "orders/4": token `) {
				t.Errorf("with lock and guard: %+v; want each order charged once, and one late write of order 4 refused", guarded)
			}
			for _, c := range v.Columns {
				if c.Callbacks != 14 || len(c.Open) > 0 || c.Killed != 1 {
					t.Errorf("%s: %+v; want 14 callbacks, one process killed and no open order", c.Column, c)
				}
			}
			if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestPaymentSays(t *testing.T) {
	t.Parallel()
	out := newAccount(t).demo("payment", "--quick", "--orders", "3", "--processes", "2")
	for _, want := range []string{
		"3 orders, called back by 2 processes, 6 times in all. 2 processes charge them.\n",
		"WITHOUT LOCK  WITH LOCK  WITH LOCK AND GUARD\n",
		"With the lock, order 2 was: its holder was stopped past the lease, and wrote after the next holder.\n",
		`With lock and guard, the late write was refused: "orders/2": token `,
		"With lock and guard, each of 3 orders was charged exactly once.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// children returns the processes that a process has started, and which of them is stopped; 0 for none.
func children(t *testing.T, pid int) (all []int, stopped int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var child, parent int
		var state string
		begin, rest, _ := strings.Cut(string(text), " (")
		_, rest, _ = strings.Cut(rest, ") ")
		if _, err := fmt.Sscan(begin, &child); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != pid {
			continue
		}
		all = append(all, child)
		if state == "T" {
			stopped = child
		}
	}
	return all, stopped
}

// stopping starts the demonstration, and returns it while a holder of a lock is stopped.
func (u *account) stopping() (p *process, pids []int) {
	u.t.Helper()
	return u.stoppingIn("payment", "--orders", "5", "--processes", "3")
}

// stoppingIn starts a demo, and returns it while a holder of a lock is stopped.
func (u *account) stoppingIn(demo string, args ...string) (p *process, pids []int) {
	u.t.Helper()
	p = u.start(append([]string{"demo", demo}, args...)...)
	until(u.t, "a process is stopped while it holds", func() bool {
		var stopped int
		pids, stopped = children(u.t, p.cmd.Process.Pid)
		return stopped != 0 && strings.Contains(u.must("ls"), "demo/"+demo+"/")
	})
	return p, pids
}

// The processes end with the demonstration, also the one that is stopped.
func TestPaymentInterrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		signal syscall.Signal
		want   int
	}{{syscall.SIGTERM, 143}, {syscall.SIGKILL, 137}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			p, pids := newAccount(t).at("redis://" + servertest.Redis(t).Addr).stopping()
			p.signal(tt.signal)
			if got := p.wait(); got != tt.want || p.stderr.String() != "" {
				t.Errorf("status %d, %q; want %d and nothing", got, p.stderr, tt.want)
			}
			until(t, "no process is left", func() bool { return living(pids) == nil })
		})
	}
}

// A store that vanishes in the middle: what is known and unknown is said.
func TestPaymentStoreVanishes(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	p, pids := newAccount(t).at("redis://" + server.Addr).stopping()
	server.Kill()
	got := p.wait()
	for _, want := range []string{
		"stile: with lock", "; known: of 5 orders ", " were charged once, 0 more often, and ",
		"; unknown: whether the store still has claims below demo/payment/", ", which end with their leases of 2s\n",
	} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("no %q in %s", want, p.stderr)
		}
	}
	if got != exit.Store || strings.Count(p.stderr.String(), "\n") != 1 {
		t.Errorf("status %d, %s; want %d and one line", got, p.stderr, exit.Store)
	}
	if left := living(pids); left != nil {
		t.Errorf("processes %v are left", left)
	}
}

// A store without tokens shows no guard, and says so.
func TestPaymentWithoutTokens(t *testing.T) {
	t.Parallel()
	out := newAccount(t).at("memcached://"+servertest.Memcached(t, "-M").Addr).demo("payment", "--orders", "5")
	for _, want := range []string{theatre.NoTokens, "With the lock, order 3 was: its holder was stopped past the lease"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "WITH LOCK AND GUARD") {
		t.Errorf("there is a guard in\n%s", out)
	}
}

// With --quick, a store whose shortest lease is too long is refused.
func TestPaymentNeedsShortLeases(t *testing.T) {
	t.Parallel()
	slow := "consul://" + servertest.Consul(t, map[string]any{"session_ttl_min": "10s"}).Addr
	if r := newAccount(t).at(slow).run("demo", "payment", "--quick"); r.code != exit.BadUsage || !strings.Contains(r.err, "--quick takes at most 5s, and the shortest lease in ") {
		t.Errorf("Consul: %+v", r)
	}
}
