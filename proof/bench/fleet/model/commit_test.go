package model

import (
	"math"
	"testing"
)

// What is made of a commit is taken apart again, and the simulation, which makes each, agrees with the formula.
func TestCommit(t *testing.T) {
	want := Commit{Time: 0.003, CPU: 0.0004}
	const work = 0.001 // processor seconds of a pair, which writes twice
	load := func(pairs float64) Load {
		commits := want.rate(2 * pairs)
		return Load{CPU: work*pairs + commits*want.CPU, Syncs: commits}
	}
	parts := Parts{
		Clients: 100, Rate: 4, Locking: load(400), CalmRate: 0.5, Calm: load(50),
	}
	r := Record{Few: parts, Many: parts}
	costs := r.Costs()
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"time", costs.Commit.Time, want.Time}, {"processor of a commit", costs.Commit.CPU, want.CPU},
		{"processor of a pair", costs.Pair.CPU, work}, {"writes of a pair", costs.Pair.Syncs, 2},
	} {
		if math.Abs(c.got/c.want-1) > 1e-3 {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	for _, rate := range []float64{0.5, 2, 20} {
		w := &Work{Processes: 200, Rate: rate, Cores: 8}
		simulated, computed := Simulate(&costs, w, seed).Load, costs.Load(w)
		if math.Abs(simulated.Syncs/computed.Syncs-1) > 0.1 || math.Abs(simulated.CPU/computed.CPU-1) > 0.1 {
			t.Errorf("at %v pairs a second of each: simulated %+v, computed %+v", rate, simulated, computed)
		}
	}
}

// Where busier clients have as many more commits, none are shared.
func TestCommitsAreNotShared(t *testing.T) {
	got := fitCommit(&Load{CPU: 1, Syncs: 10}, &Load{CPU: 8, Syncs: 80}, 8)
	if got != (Commit{}) {
		t.Errorf("commits are shared by %+v", got)
	}
}
