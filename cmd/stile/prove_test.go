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

// proven runs stile prove and reads its report.
func (u *account) proven(args ...string) (v trial.ProofView, code int) {
	u.t.Helper()
	r := u.run(append([]string{"prove", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		u.t.Fatalf("prove %q: status %d, %v: %s%s", args, r.code, err, r.out, r.err)
	}
	return v, r.code
}

// A Redis that is in order passes, with all kinds of faults.
func TestProve(t *testing.T) {
	t.Parallel()
	u := newAccount(t).at("redis://" + servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").Addr)
	file := filepath.Join(u.home, "report.html")
	v, code := u.proven("--for", "1s", "--clients", "3", "--seed", "7", "--html", file)
	if code != 0 || v.Verdict != "passed" || len(v.Findings)+len(v.Why) > 0 || v.Seed != "7" || v.Clients != 3 {
		t.Errorf("status %d: %+v", code, v)
	}
	if v.Control.Lost == 0 || v.Guarded == nil || v.Guarded.Lost != 0 || v.Guarded.Refused == 0 {
		t.Errorf("without a guard %+v, and with one %+v; want updates that were lost, and that were refused", v.Control, v.Guarded)
	}
	hit := map[string]bool{}
	for _, f := range v.Faults {
		hit[f.Kind] = hit[f.Kind] || f.Hit
	}
	if len(hit) != 4 || !hit["pause"] || !hit["kill"] || !hit["cut"] || !hit["suspend"] {
		t.Errorf("the faults are %+v; want that one of each kind hit", v.Faults)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `class="v passed"`) || strings.Contains(string(text), "<script") || strings.Contains(string(text), "src=") {
		t.Errorf("the page is %.200q, %v", text, err)
	}
	if left := u.must("ls"); !strings.Contains(left, "no names are in use") {
		t.Errorf("left is %s", left)
	}
}

// A store that goes away, and whoever interrupts, make a run inconclusive. No process of it is left.
func TestProveEndsEarly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		end    func(s *servertest.Server, p *process)
		status int
		why    string
	}{
		{"the store goes away", func(s *servertest.Server, p *process) {
			s.Kill()
			until(t, "the run notices", func() bool { return strings.Contains(p.stderr.String(), "does not answer") })
			s.Restart()
		}, trial.Inconclusive, "the store did not answer"},
		{"interrupted", func(_ *servertest.Server, p *process) { p.signal(syscall.SIGTERM) }, exit.Signal + int(syscall.SIGTERM), "ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
			u := newAccount(t).at("redis://" + s.Addr)
			p := u.start("prove", "--verbose", "--json", "--for", "1s", "--clients", "2")
			until(t, "the second fault is made", func() bool { return strings.Contains(p.stderr.String(), "is killed") })
			test.end(s, p)
			var v trial.ProofView
			err := json.NewDecoder(p.out).Decode(&v)
			if code := p.wait(); code != test.status || err != nil || v.Verdict != "inconclusive" || !strings.Contains(strings.Join(v.Why, "; "), test.why) {
				t.Errorf("status %d, want %d; %v: %s, %q, %q: %s", code, test.status, err, v.Verdict, v.Findings, v.Why, p.stderr)
			}
			if left := u.must("ls"); !strings.Contains(left, "no names are in use") {
				t.Errorf("left is %s", left)
			}
		})
	}
}

func TestProveWithoutRights(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Redis([]string{"ACL", "SETUSER", "default", "-evalsha", "-eval"})
	r := newAccount(t).at("redis://"+s.Addr).run("prove", "--for", "1s")
	if r.code != exit.BadUsage || !strings.Contains(r.err, "permission") && !strings.Contains(r.err, "right") {
		t.Errorf("status %d: %s", r.code, r.err)
	}
}
