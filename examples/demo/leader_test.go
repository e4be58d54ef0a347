//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/examples/demo/internal/leader"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/servertest"
)

// One candidate leads after the other, under every fault; late writes succeed only where no guard refuses them.
func TestLeaderDemo(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			if store == "redis" {
				u.at("redis://" + servertest.Redis(t).Addr)
			}
			picture := filepath.Join(u.home, "leader.svg")
			var v leader.LeaderResult
			if err := json.Unmarshal([]byte(u.demo("leader", "--quick", "--json", "--svg", picture)), &v); err != nil {
				t.Fatal(err)
			}
			faults := []leader.Fault{leader.FaultKill, leader.FaultStop, leader.FaultDepose, ""}
			if len(v.Terms) != len(faults) || v.Lease != 1 {
				t.Fatalf("got %+v", v)
			}
			last := int64(0)
			for i, term := range v.Terms {
				token, err := strconv.ParseInt(term.Token, 10, 64)
				if err != nil || token <= last || term.Fault != faults[i] || (term.Next == nil) != (i == len(faults)-1) {
					t.Errorf("term %d: %+v after token %d, %v; want a larger token and fault %q", i+1, term, last, err, faults[i])
				}
				last = token
			}
			if next := v.Terms[0].Next; next != nil && *next < 0.5 {
				t.Errorf("somebody led %v s after the leader was killed, before its lease was over", *next)
			}
			if p := v.Plain; p.Late != 2 || p.Refused != 0 || p.Lost < 2 || p.Value != p.Writes-p.Lost {
				t.Errorf("without guard: %+v; want two late writes, which lose others", p)
			}
			if g := v.Guarded; g.Late != 0 || g.Refused != 2 || g.Lost != 0 || g.Value != g.Writes || g.Writes != v.Plain.Writes-2 {
				t.Errorf("with guard: %+v; want two late writes refused, and nothing lost", g)
			}
			if v.Misnamed < 1 || v.Nobody < 1 {
				t.Errorf("nobody led for %v s, and observers named one who did not lead for %v s; want both for a lease at least", v.Nobody, v.Misnamed)
			}
			demotest.WantPicture(t, picture, "candidate 1", "candidate 3", "killed", "stopped", "refused", "late write")
		})
	}
}

func TestLeaderDemoSays(t *testing.T) {
	t.Parallel()
	out := newUser(t).demo("leader", "--quick")
	wantTexts(t, out,
		"3 candidates stand for one leadership, kept in sqlite://",
		"NEXT LED AFTER  OBSERVERS KNEW AFTER\n",
		" stopped past its lease ", " deposed by hand ", " still leads ",
		"WITHOUT GUARD  WITH GUARD\n",
		"The file without a guard took 2 late writes, and lost ",
		`With the guard 2 late writes were refused, and nothing was lost. What it said: "guarded": token `,
	)
}

// Without tokens there is no guard, and the demo says so.
func TestLeaderDemoWithoutTokens(t *testing.T) {
	t.Parallel()
	out := newUser(t).at("memcached://" + servertest.Memcached(t, "-M").Addr).demo("leader")
	wantTexts(t, out, demo.NoTokens, "The file without a guard took 2 late writes, and lost ")
	if strings.Contains(out, "WITH GUARD") {
		t.Errorf("there is a guard in\n%s", out)
	}
}

// The candidates end with the demo, also the one that is stopped.
func TestLeaderDemoInterrupted(t *testing.T) {
	t.Parallel()
	for signal := range endings {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p, pids := newUser(t).at("redis://" + servertest.Redis(t).Addr).stopping("leader")
			p.wantEnded(signal, pids)
		})
	}
}

// A store that vanishes in the middle: the demo reports the known and the unknown facts.
func TestLeaderDemoStoreVanishes(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	p, pids := newUser(t).at("redis://" + server.Addr).stopping("leader")
	server.Kill()
	p.wantHalf(pids,
		"; known: 2 terms began, in which ", " writes were made and 0 refused",
		"; unknown: whether the store still has claims below demo/leader/", ", which end with their leases of 2s\n",
	)
}
