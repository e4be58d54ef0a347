package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/trial"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// Two stores are measured in turn and compared, and nothing is left in either.
func TestBench(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	first, second := "redis://"+servertest.Redis(t).Addr, "sqlite://"+filepath.Join(u.home, "locks.db")
	picture := filepath.Join(u.home, "bench.svg")
	r := u.run("bench", "--window", "50ms", "--rounds", "2", "--json", "--svg", picture, first, second)
	var v trial.BenchView
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != 0 || !v.Complete || len(v.Stores) != 2 || len(v.Scenarios) != len(trial.Keys()) {
		t.Fatalf("status %d, %v: %s%s", r.code, err, r.out, r.err)
	}
	for _, s := range v.Scenarios {
		if s.P50 == nil || s.P50.Least > s.P50.Most || (s.Rate == nil) != (s.Scenario == "handover") {
			t.Errorf("%s: the ratios are %+v and %+v", s.Scenario, s.P50, s.Rate)
		}
		for i, side := range s.Results {
			count := int64(0)
			for _, b := range side.Histogram {
				count += b.Count
			}
			if side.P50 <= 0 || side.P99 < side.P50 || side.Most < side.P99 || count != side.Count {
				t.Errorf("%s on store %d: %+v", s.Scenario, i, side)
			}
		}
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "hand") || !strings.HasPrefix(string(text), "<svg") {
		t.Errorf("the picture is %.80q, %v", text, err)
	}
	for _, url := range []string{first, second} {
		if left := u.must("ls", "--url", url); !strings.Contains(left, "no names are in use") {
			t.Errorf("%s has %s", url, left)
		}
	}
	text := u.run("bench", "--window", "50ms", "--rounds", "1", "--only", "alone,handover", first)
	if text.code != 0 || !strings.Contains(text.out, "\nalone ") || !strings.Contains(text.out, "\nhandover ") || strings.Contains(text.out, "\nhot ") {
		t.Errorf("status %d: %s%s", text.code, text.out, text.err)
	}
}

// A store that vanishes while it is measured, and whoever interrupts, leave what was measured before.
func TestBenchEndsEarly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		end    func(s *servertest.Server, p *process)
		status int
	}{
		{"the store vanishes", func(s *servertest.Server, _ *process) { s.Kill() }, exit.Store},
		{"interrupted", func(_ *servertest.Server, p *process) { p.signal(syscall.SIGINT) }, exit.Signal + int(syscall.SIGINT)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			u := newAccount(t).at("redis://" + s.Addr)
			p := u.start("bench", "--verbose", "--window", "200ms", "--rounds", "100", "--only", "alone,hot", "--json")
			until(t, "the second round has begun", func() bool { return strings.Contains(p.stderr.String(), "round 2 of 100: hot") })
			test.end(s, p)
			var v trial.BenchView
			err := json.NewDecoder(p.out).Decode(&v)
			if code := p.wait(); code != test.status || err != nil || v.Complete || v.Error == "" {
				t.Fatalf("status %d, want %d; %v: %+v: %s", code, test.status, err, v, p.stderr)
			}
			if alone := v.Scenarios[0].Results[0]; alone == nil || alone.Count == 0 {
				t.Errorf("what was measured is %+v; want what there was before", v.Scenarios)
			}
			if test.status != exit.Store {
				if left := u.must("ls"); !strings.Contains(left, "no names are in use") {
					t.Errorf("left is %s", left)
				}
			}
		})
	}
}

func TestBenchWithoutRights(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Redis([]string{"ACL", "SETUSER", "default", "-evalsha", "-eval"})
	r := newAccount(t).at("redis://"+s.Addr).run("bench", "--window", "50ms", "--rounds", "1")
	if r.code != exit.BadUsage || !strings.Contains(r.err, "permission") && !strings.Contains(r.err, "right") {
		t.Errorf("status %d: %s", r.code, r.err)
	}
}
