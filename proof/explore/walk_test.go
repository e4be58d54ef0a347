package explore

import (
	"flag"
	"testing"
)

var (
	most = flag.Int64("states", 0, "stop after so many states; 0 means at the end")
	only = flag.String("world", "", "walk only the world of this name")
)

// walked are the worlds that a test of this run has walked.
var walked = map[string]*Result{}

func walk(conf *Config) *Result {
	r := walked[conf.Name]
	if r == nil {
		r = Walk(conf, Limits{States: *most})
		walked[conf.Name] = r
	}
	return r
}

func TestWorlds(t *testing.T) {
	for _, conf := range Small() {
		if *only != "" && conf.Name != *only {
			continue
		}
		t.Run(conf.Name, func(t *testing.T) {
			r := walk(&conf)
			t.Logf("%d states, %d transitions, depth %d, %v, %d MB, done %v", r.States, r.Transitions, r.Depth,
				r.Time, r.Memory>>20, r.Done)
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}

// TestNamesOfWorlds checks that no two worlds of one list have the same name.
func TestNamesOfWorlds(t *testing.T) {
	for _, worlds := range [][]Config{Small(), Full(), Long()} {
		names := map[string]bool{}
		for _, conf := range worlds {
			if names[conf.Name] {
				t.Errorf("two worlds are called %q", conf.Name)
			}
			names[conf.Name] = true
		}
	}
}

// TestWorldsAreMadeAgain checks that a walk that makes nearly all worlds again from the tree equals the walk that keeps
// them.
func TestWorldsAreMadeAgain(t *testing.T) {
	for _, conf := range []Config{
		{Name: "2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Requests | Unsent | Drift, Acts: plain},
		{Name: "1x2", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: All, Acts: Lock | Share | Close},
	} {
		t.Run(conf.Name, func(t *testing.T) {
			want := Walk(&conf, Limits{})
			got := Walk(&conf, Limits{Kept: 1})
			if want.Violation != nil || got.Violation != nil || !got.Done {
				t.Fatal(want.Violation, got.Violation)
			}
			if got.States != want.States || got.Transitions != want.Transitions || got.Depth != want.Depth {
				t.Errorf("%d states, %d transitions, depth %d; where all are kept, %d, %d, %d",
					got.States, got.Transitions, got.Depth, want.States, want.Transitions, want.Depth)
			}
		})
	}
}

func TestEventsFitIntoAWord(t *testing.T) {
	for _, ev := range []Event{
		{}, {Kind: kinds - 1, Client: 3, G: 15, Copy: true, Number: 1<<19 - 1},
		{Kind: goBreak, Number: 7}, {Kind: doAlarm, Client: 1, G: 9},
	} {
		if got := ev.pack().event(); got != ev {
			t.Errorf("%+v is packed and comes out as %+v", ev, got)
		}
	}
}

func TestSet(t *testing.T) {
	s := newSet()
	const n = 10_000
	hash := func(i uint64) Hash { return Hash(i * 0x9e3779b97f4a7c15) }
	for i := range uint64(n) {
		if h := hash(i + 1); !s.mark(h, seen) || s.mark(h, seen) {
			t.Fatalf("state %d is not new, or still is", i)
		}
		if h := hash(i + 1); i%2 == 0 && !s.mark(h, rested) {
			t.Fatalf("state %d is known to rest", i)
		}
	}
	for i := range uint64(n) {
		if h := hash(i + 1); !s.has(h, seen) || s.has(h, rested) != (i%2 == 0) {
			t.Fatalf("state %d: seen %v, rested %v", i, s.has(h, seen), s.has(h, rested))
		}
	}
	if s.mark(hash(n+1), rested); s.has(hash(n+1), seen) || s.len() != n {
		t.Errorf("%d states are seen, want %d", s.len(), n)
	}
}
