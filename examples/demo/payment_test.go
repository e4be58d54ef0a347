//go:build unix

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/examples/demo/internal/payment"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// Each order but the one whose process was stopped is charged once with the lock, and that one too with the guard.
func TestPayment(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			if store == "redis" {
				u.at("redis://" + servertest.Redis(t).Addr)
			}
			var v payment.PaymentView
			if err := json.Unmarshal([]byte(u.demo("payment", "--quick", "--json", "--orders", "7", "--processes", "3", "--svg", u.home+"/payment.svg")), &v); err != nil {
				t.Fatal(err)
			}
			demotest.WantPicture(t, u.home+"/payment.svg", "with lock: process 1", "stopped", "killed", "charged again", "refused")
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
		})
	}
}

func TestPaymentSays(t *testing.T) {
	t.Parallel()
	out := newUser(t).demo("payment", "--quick", "--orders", "3", "--processes", "2")
	wantTexts(t, out,
		"3 orders, called back by 2 processes, 6 times in all. 2 processes charge them.\n",
		"WITHOUT LOCK  WITH LOCK  WITH LOCK AND GUARD\n",
		"With the lock, order 2 was: its holder was stopped past the lease, and wrote after the next holder.\n",
		`With lock and guard, the late write was refused: "orders/2": token `,
		"With lock and guard, each of 3 orders was charged exactly once.\n",
	)
}

// The processes end with the demonstration, also the one that is stopped.
func TestPaymentInterrupted(t *testing.T) {
	t.Parallel()
	for signal := range endings {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p, pids := newUser(t).at("redis://"+servertest.Redis(t).Addr).stopping("payment", "--orders", "5", "--processes", "3")
			p.wantEnded(signal, pids)
		})
	}
}

// A store that vanishes in the middle: the demo reports the known and the unknown facts.
func TestPaymentStoreVanishes(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	p, pids := newUser(t).at("redis://"+server.Addr).stopping("payment", "--orders", "5", "--processes", "3")
	server.Kill()
	p.wantHalf(pids,
		"demo: with lock", "; known: of 5 orders ", " were charged once, 0 more often, and ",
		"; unknown: whether the store still has claims below demo/payment/", ", which end with their leases of 2s\n",
	)
}

// A store without tokens shows no guard, and says so.
func TestPaymentWithoutTokens(t *testing.T) {
	t.Parallel()
	out := newUser(t).at("memcached://"+servertest.Memcached(t, "-M").Addr).demo("payment", "--orders", "5")
	wantTexts(t, out, demo.NoTokens, "With the lock, order 3 was: its holder was stopped past the lease")
	if strings.Contains(out, "WITH LOCK AND GUARD") {
		t.Errorf("there is a guard in\n%s", out)
	}
}

// With --quick, a store whose shortest lease is too long is refused.
func TestPaymentNeedsShortLeases(t *testing.T) {
	t.Parallel()
	slow := "consul://" + servertest.Consul(t, map[string]any{"session_ttl_min": "10s"}).Addr
	if r := newUser(t).at(slow).run("payment", "--quick"); r.code != exit.BadUsage || !strings.Contains(r.err, "--quick takes at most 5s, and the shortest lease in ") {
		t.Errorf("Consul: %+v", r)
	}
}
