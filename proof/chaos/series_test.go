//go:build unix

package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSeries runs one seed after the other, the stores in turn. Runs in the log count, and are not repeated.
func TestSeries(t *testing.T) {
	log := t.TempDir() + "/alarms.log"
	const before = "etcd seed=8 for=8s pairs=false workers=4 faults=9 holds=4 checked=8 lax=0s excused=0 findings=2\n" +
		"redis seed=9 for=9s pairs=false workers=4 faults=9 holds=4 checked=8 lax=0s excused=0 findings=none\n" // another length
	if err := os.WriteFile(log, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	var made, failed []string
	once := func(p *plan) *outcome {
		made = append(made, p.name())
		o := &outcome{plan: *p}
		switch p.seed {
		case 9:
			o.wrong = []string{"two hold"}
		case 10:
			o.inconclusive = []string{"took too long"}
		}
		return o
	}
	s := &series{plan: plan{during: 8 * time.Second, seed: 7, workers: 4}, stores: []string{"redis", "etcd"}, runs: 5, log: log}
	play := func(want string) {
		t.Helper()
		c, err := s.play(io.Discard, once, func(o *outcome) { failed = append(failed, o.name()) })
		if err != nil || c.String() != want {
			t.Errorf("the series came to %q (%v); want %q", c, err, want)
		}
	}
	play("5 runs, 1 of them from the log: 2 without a finding, 2 with findings, 1 inconclusive")
	want := []string{
		"redis seed=7 for=8s pairs=false workers=4", "redis seed=9 for=8s pairs=false workers=4",
		"etcd seed=10 for=8s pairs=false workers=4", "redis seed=11 for=8s pairs=false workers=4",
	}
	if !slices.Equal(made, want) || !slices.Equal(failed, want[1:2]) {
		t.Errorf("made %q, of which failed %q; want %q, of which the second", made, failed, want)
	}
	made = nil
	if play("5 runs, 5 of them from the log: 2 without a finding, 2 with findings, 1 inconclusive"); made != nil {
		t.Errorf("the same series made %q again", made)
	}
	s.alike, s.runs = true, 2
	play("2 runs, 0 of them from the log: 2 without a finding, 0 with findings, 0 inconclusive")
	if want := []string{"redis seed=7 for=8s pairs=false workers=4", "etcd seed=7 for=8s pairs=false workers=4"}; !slices.Equal(made, want) {
		t.Errorf("without -runs, %q were made; want each store with one seed, although the log has it", made)
	}
	s.log = t.TempDir() + "/none/alarms.log"
	if _, err := s.play(io.Discard, once, func(*outcome) {}); err == nil {
		t.Error("a log that cannot be written is no error")
	}
}

func TestSeriesFlags(t *testing.T) {
	p := plan{during: time.Second, workers: 2}
	for _, tt := range []struct {
		stores, want string
		runs         int
	}{
		{"redis,etcd", "", 200},
		{"redis,redis2", `-store "redis2" is none of `, 1},
		{"redis,etcd,redis", "-store names redis twice", 1},
		{"redis", "-runs 0 is not from 1 to 1000", 0},
	} {
		err := (&series{plan: p, stores: strings.Split(tt.stores, ","), runs: tt.runs}).check(true)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s, %d runs: %v; want %q", tt.stores, tt.runs, err, tt.want)
		}
	}
	p = plan{store: "etcd", seed: 7, during: time.Minute, workers: 3, pairs: true, only: []string{killServer, holdReplies}}
	if got, want := p.flags(), "-store etcd -seed 7 -for 1m0s -workers 3 -pairs -faults 'kill a server,hold replies'"; got != want {
		t.Errorf("the flags are %s; want %s", got, want)
	}
	if got, want := p.name(), `etcd seed=7 for=1m0s pairs=true workers=3 only="kill a server,hold replies"`; got != want {
		t.Errorf("the name is %s; want %s", got, want)
	}
}
