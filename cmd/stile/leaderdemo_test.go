package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/leader"
	"github.com/stilelock/stile/cmd/stile/internal/theatre"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// One leads after the other, whatever is done to them; late writes come through where nothing guards against them, and only there.
func TestLeaderDemo(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
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
			wantPicture(t, picture, "candidate 1", "candidate 3", "killed", "stopped", "refused", "late write")
			if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// wantPicture wants a picture with these texts in it.
func wantPicture(t *testing.T, path string, texts ...string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text, new(struct{ XMLName xml.Name })); err != nil {
		t.Error(err)
	}
	for _, want := range texts {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
}

func TestLeaderDemoSays(t *testing.T) {
	t.Parallel()
	out := newAccount(t).demo("leader", "--quick")
	for _, want := range []string{
		"3 candidates stand for one leadership, kept in sqlite://",
		"NEXT LED AFTER  OBSERVERS KNEW AFTER\n",
		" stopped past its lease ", " deposed by hand ", " still leads ",
		"WITHOUT GUARD  WITH GUARD\n",
		"The file without a guard took 2 late writes, and lost ",
		`With the guard 2 late writes were refused, and nothing was lost. What it said: "guarded": token `,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Without tokens there is no guard, and the demo says so.
func TestLeaderDemoWithoutTokens(t *testing.T) {
	t.Parallel()
	out := newAccount(t).at("memcached://" + servertest.Memcached(t, "-M").Addr).demo("leader")
	for _, want := range []string{theatre.NoTokens, "The file without a guard took 2 late writes, and lost "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "WITH GUARD") {
		t.Errorf("there is a guard in\n%s", out)
	}
}

// The candidates end with the demo, also the one that is stopped.
func TestLeaderDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		signal syscall.Signal
		want   int
	}{{syscall.SIGTERM, 143}, {syscall.SIGKILL, 137}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			p, pids := newAccount(t).at("redis://" + servertest.Redis(t).Addr).stoppingIn("leader")
			p.signal(tt.signal)
			if got := p.wait(); got != tt.want || p.stderr.String() != "" {
				t.Errorf("status %d, %q; want %d and nothing", got, p.stderr, tt.want)
			}
			until(t, "no process is left", func() bool { return living(pids) == nil })
		})
	}
}

// A store that vanishes in the middle: what is known and unknown is said.
func TestLeaderDemoStoreVanishes(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	p, pids := newAccount(t).at("redis://" + server.Addr).stoppingIn("leader")
	server.Kill()
	got := p.wait()
	for _, want := range []string{
		"; known: 2 terms began, in which ", " writes were made and 0 refused",
		"; unknown: whether the store still has claims below demo/leader/", ", which end with their leases of 2s\n",
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
