//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/examples/demo/internal/market"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/servertest"
)

// With locks no trade has to be tried again, money and items are conserved, and every buyer buys, wherever the locks are.
func TestMarketDemo(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "sqlite"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			data, u := servertest.Redis(t), newUser(t)
			if store == "sqlite" {
				u.at("sqlite://" + u.home + "/locks.db")
			}
			picture := u.home + "/market.svg"
			var v market.MarketView
			if err := json.Unmarshal([]byte(u.demo("market", "--quick", "--json", "--data", "redis://"+data.Addr, "--svg", picture)), &v); err != nil {
				t.Fatal(err)
			}
			if len(v.Rows) != len(market.Mixes)*len(market.Ways) || v.For != 0.2 {
				t.Fatalf("got %+v", v)
			}
			retries := int64(0)
			for i, r := range v.Rows {
				if m := market.Mixes[i/len(market.Ways)]; r.Listers != m.Listers || r.Buyers != m.Buyers || r.Way != market.Ways[i%len(market.Ways)] {
					t.Errorf("row %d is %+v; want %s, %s", i, r, m, market.Ways[i%len(market.Ways)])
				}
				if r.Listed == 0 || r.Lost != 0 || r.Made != 0 {
					t.Errorf("%+v: want something listed, and nothing missing or from nowhere", r)
				}
				if r.Way == market.WayWatch {
					retries += r.Retries
				} else if r.Retries != 0 || r.Idle != 0 || r.Bought < int64(r.Buyers) || r.Mean == 0 || r.P99 == 0 {
					t.Errorf("%+v: want no retries, and something bought by each buyer", r)
				}
			}
			if retries == 0 {
				t.Error("nothing was tried again without a lock")
			}
			if keys := data.Redis([]string{"KEYS", "stile-demo:*"}); fmt.Sprint(keys) != "[]" {
				t.Errorf("left behind: %v", keys)
			}
			demotest.WantPicture(t, picture, "lister1", "buyer5", "with one lock for all")
		})
	}
}

func TestMarketDemoSays(t *testing.T) {
	t.Parallel()
	data := "redis://" + servertest.Redis(t).Addr
	u := newUser(t)
	r := u.run("market", "--quick", "--for", "200ms", "--data", data)
	for n := 0; n < 5 && strings.Contains(r.err, "nothing was listed"); n++ { // the machine stood still for all of that
		r = u.run("market", "--quick", "--for", "200ms", "--data", data)
	}
	if r.code != 0 {
		t.Fatalf("status %d, %s", r.code, r.err)
	}
	out := r.out
	wantTexts(t, out,
		"Each row of the table trades for 200ms.\n", "The locks are kept in "+data+"/.\n",
		"  LISTERS/BUYERS  WAY                    LISTED  BOUGHT  RETRIES  MEAN WAIT  P99 WAIT\n",
		"  5/5             optimistic, WATCH ",
		"With locks no trade had to be tried again, every buyer bought, and all money and items are there.\n",
	)
}

// The traders end with the demo.
func TestMarketDemoInterrupted(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	p, pids := newUser(t).trading(server)
	p.wantEnded(syscall.SIGTERM, pids)
	data, err := market.OpenMarket("redis://" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	keys, err := data.Do(t.Context(), data.B().Keys().Pattern("stile-demo:*").Build()).AsStrSlice()
	if err != nil || len(keys) > 0 {
		t.Errorf("left in Redis: %q, %v", keys, err)
	}
}

// A Redis that vanishes in the middle: the demo reports the known and the unknown facts.
func TestMarketDemoStoreVanishes(t *testing.T) {
	t.Parallel()
	server, u := servertest.Redis(t), newUser(t)
	p, pids := u.at("sqlite://" + u.home + "/locks.db").trading(server)
	server.Kill()
	p.wantHalf(pids,
		"demo: 1/1, optimistic, WATCH: ", "; known: 0 of 12 rows of the table came to their end, with 0 purchases",
		"; unknown: whether Redis still has keys that begin with stile-demo:{",
	)
}

// trading starts the demo, and returns it while it trades.
func (u *user) trading(data *servertest.Server) (p *process, pids []int) {
	p = u.start("market", "--for", "1m", "--data", "redis://"+data.Addr)
	servertest.Until(u.t, "something is listed", func() bool { return fmt.Sprint(data.Redis([]string{"KEYS", "stile-demo:*market:"})) != "[]" })
	pids, _ = demotest.Children(u.t, p.cmd.Process.Pid)
	return p, pids
}
