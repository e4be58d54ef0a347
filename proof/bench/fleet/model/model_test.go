package model

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/evidence/scaling.md anew")

// The fleets were measured apart from the parts from which they are computed here.
func TestSimulationIsRightWhereItWasMeasured(t *testing.T) {
	var missed []string
	for i := range Stores {
		s := &Stores[i]
		t.Run(s.Key, func(t *testing.T) {
			r, err := s.Record()
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Fleets) != 3 {
				t.Errorf("%d fleets were measured, want 3", len(r.Fleets))
			}
			costs := r.Costs()
			for _, f := range r.Fleets {
				got := Simulate(&costs, &Work{Processes: f.Clients, Rate: f.Rate, Cores: s.Cores}, seed)
				for _, one := range figures(&f.Seen, &got.Load) {
					if one.missed() {
						which := fmt.Sprintf("%s, %d processes, %s", s.Key, f.Clients, one.name)
						t.Logf("%s: computed %.4g, measured %.4g: off by %+.0f %%", which, one.computed, one.seen, one.off()*100)
						missed = append(missed, which)
					}
				}
			}
		})
	}
	if len(missed) > 0 {
		t.Errorf("the simulation is not within %.0f %% of %q", Tolerance*100, missed)
	}
}

func TestPage(t *testing.T) {
	const file = "../../../../docs/evidence/scaling.md"
	tables, err := Tables()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for name, want := range tables {
		begin, end := "<!-- "+name+": go test ./proof/bench/fleet/model -run TestPage -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		got, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no place for the table %q", file, name)
		}
		if got != want && !*update {
			t.Errorf("%s: table %q is not what is computed; go test ./proof/bench/fleet/model -run TestPage -update\n%s", file, name, want)
		}
		page = before + begin + want + end + after
	}
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What costs nothing but a known amount is found again.
func TestCosts(t *testing.T) {
	p := Parts{
		Clients: 100, Rate: 2, Opening: 3,
		Empty:    Load{CPU: 1, Memory: 50, Syncs: -1},
		Idle:     Load{CPU: 11, Connections: 100, Memory: 150, Syncs: -1},
		Holding:  Load{CPU: 31, Connections: 100, Memory: 350, Syncs: -1},
		Locking:  Load{CPU: 111, Connections: 100, Memory: 150, Syncs: -1},
		Waiting:  Load{CPU: 11 + 2 + 45, Connections: 190, Memory: 150 + 20 + 90, Syncs: -1},
		CalmRate: 1, Calm: Load{CPU: 61, Connections: 100, Memory: 150, Syncs: -1},
		Together: Load{Connections: 250, Syncs: -1},
	}
	r := Record{Few: p, Many: p}
	got := r.Costs()
	want := Costs{
		Base:   p.Empty,
		Client: Load{CPU: 0.1, Connections: 1, Memory: 1, Syncs: -1},
		Held:   Load{CPU: 0.2, Memory: 2, Syncs: -1},
		Pair:   Load{CPU: 0.5, Syncs: -1},
		Waiter: Load{CPU: 0.5, Connections: 1, Memory: 1, Syncs: -1},
		Open:   0.03,
	}
	for _, c := range []struct {
		name      string
		got, want Load
	}{
		{"base", got.Base, want.Base}, {"client", got.Client, want.Client}, {"held", got.Held, want.Held},
		{"pair", got.Pair, want.Pair}, {"waiter", got.Waiter, want.Waiter},
	} {
		c.got.each(c.want, func(a, b float64) float64 {
			if math.Abs(a-b) > 1e-9 {
				t.Errorf("%s costs %+v, want %+v", c.name, c.got, c.want)
			}
			return 0
		})
		if c.got.Syncs != -1 {
			t.Errorf("%s syncs %v times, but nothing was told", c.name, c.got.Syncs)
		}
	}
	if math.Abs(got.Open-want.Open) > 1e-9 {
		t.Errorf("to connect costs %v, want %v", got.Open, want.Open)
	}
	if all := got.connections(1000); all != 2500 {
		t.Errorf("1,000 processes have %v connections, want 2500", all)
	}
}

func TestSimulateWaits(t *testing.T) {
	costs := Costs{Pair: Load{CPU: 0.001}}
	costs.Ease.Pair.CPU = 0.001
	for _, c := range []struct {
		processes, cores int
		least, most      float64 // p99, seconds
	}{
		{100, 1, 0, 0.002},          // a tenth of a core
		{5000, 1, 1, 5 * simulated}, // five times what a core can do
		{5000, 16, 0, 0.002},        // a third of what they can do
	} {
		got := Simulate(&costs, &Work{Processes: c.processes, Rate: 1, Cores: c.cores}, seed)
		if got.P99 < c.least || got.P99 > c.most {
			t.Errorf("%d processes on %d cores: p99 %v s, want %v to %v", c.processes, c.cores, got.P99, c.least, c.most)
		}
		if want := float64(c.processes) * 0.001; math.Abs(got.CPU/want-1) > 0.1 {
			t.Errorf("%d processes: %v processor seconds a second, want about %v", c.processes, got.CPU, want)
		}
	}
}

func TestLimits(t *testing.T) {
	l := Limits{CPU: 1, Connections: 100, Memory: 1000, Network: 1000, Syncs: 10}
	costs := Costs{All: 1, Client: Load{Connections: 1, Syncs: -1}, Pair: Load{CPU: 0.1, Syncs: -1}}
	costs.Ease.Pair.CPU = 0.1
	w := &Work{Processes: 200, Rate: 0.01}
	load := costs.Load(w)
	if got := l.Shares(&load)[0]; got.Name != "connections" || got.Share != 2 {
		t.Errorf("%+v is scarcest, want connections, twice", got)
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"servers for a fleet that is cut up", l.Divided(&costs, w), 2},
		{"processes on one server", l.Most(&costs, 0.01), 100},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	round := func(v float64) Record {
		l := Load{v, v, v, v, v, v}
		return Record{
			Few:    Parts{Opening: v, Empty: l, Idle: l, Holding: l, Locking: l, Waiting: l, Calm: l, Together: l},
			Many:   Parts{Opening: v, Empty: l, Idle: l, Holding: l, Locking: l, Waiting: l, Calm: l, Together: l},
			Fleets: []Fleet{{Clients: 7, Seen: l}},
		}
	}
	for _, c := range []struct {
		rounds []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 3}, 3}, {[]float64{4, 1}, 2.5}} {
		var rounds []Record
		for _, v := range c.rounds {
			rounds = append(rounds, round(v))
		}
		got, want := Median(rounds), round(c.want)
		if got.Few != want.Few || got.Many != want.Many || got.Fleets[0] != want.Fleets[0] {
			t.Errorf("median of %v: %+v, want %v everywhere", c.rounds, got, c.want)
		}
	}
}

// ease recovers a cost that falls with the traffic, and is constant beyond the measured range.
func TestEase(t *testing.T) {
	cost := func(traffic float64) float64 { return 0.01 / math.Sqrt(traffic) }
	var seen []thing
	for _, traffic := range []float64{400, 100, 10_000} {
		seen = append(seen, thing{Load{CPU: cost(traffic)}, traffic})
	}
	e, busy := ease(seen...), spanOf(seen...)
	for _, c := range []struct{ traffic, want float64 }{
		{0, cost(100)}, {1, cost(100)}, {100, cost(100)}, {900, cost(900)}, {10_000, cost(10_000)}, {1e9, cost(10_000)},
	} {
		if got := e.at(busy.within(c.traffic)); math.Abs(got/c.want-1) > 1e-9 {
			t.Errorf("with a traffic of %v it costs %v, want %v", c.traffic, got, c.want)
		}
	}
	for _, flat := range [][]thing{
		{{Load{CPU: 2}, 10}, {Load{CPU: 1}, 10}}, // no two kinds of traffic
		{{Load{}, 10}, {Load{CPU: 1}, 20}},       // nothing was seen
		{{Load{CPU: 0.5}, 10}, {Load{CPU: 1}, 20}},
	} {
		if e := ease(flat...); e.at(5) != 1 || e.at(50) != 1 {
			t.Errorf("%+v costs %v and %v, want 1 whatever the traffic", flat, e.at(5), e.at(50))
		}
	}
}

// In a fleet each action has its cost at the traffic of the whole fleet.
func TestAmong(t *testing.T) {
	parts := func(n, times float64) Parts {
		l := func(cpu, received float64) Load { return Load{CPU: cpu, Received: received, Syncs: -1} }
		return Parts{
			Clients: int(n), Rate: 1, CalmRate: 0.5, Empty: l(0, 0), Idle: l(0, 0), Together: l(0, 0),
			Holding: l(n*times, 10*n), Locking: l(n*times, 10*n), Calm: l(n*times, 10*n), Waiting: l(n*times, 10*n),
		}
	}
	r := Record{Few: parts(10, 2), Many: parts(1000, 1)}
	costs := r.Costs()
	for _, c := range []struct {
		processes int
		want      float64
	}{{1, 2}, {45, math.Sqrt2}, {10_000, 1}} { // a process sends 22 bytes a second
		held, _, _ := costs.among(&Work{Processes: c.processes, Rate: 0.2})
		if math.Abs(held.CPU/c.want-1) > 0.01 {
			t.Errorf("among %d processes a held lock costs %v, want %v", c.processes, held.CPU, c.want)
		}
	}
}
