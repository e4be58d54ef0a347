package explore

import (
	"math/rand/v2"
	"testing"

	"github.com/stilelock/stile/internal/engine"
)

// implied are the fields without which the worlds of the test have as many states, each with the reason.
// [TestSameStatesDoTheSame] checks that no field is missing; one too many does no harm.
var implied = map[string]string{
	"line.asking":    "claim.stage tells which claim asks",
	"claim.id":       "claims are written in the order of their ids",
	"claim.stage":    "each stage has other fields",
	"claim.verb":     "requests are written by the explorer",
	"claim.silent":   "turn.since, which is counted from there",
	"claim.since":    "the limit of the Leave, and turn.since",
	"claim.turnEnd":  "the explorer writes when the first turn began",
	"claim.deadline": "the explorer writes what it was told to trust",
	"claim.err":      "the explorer writes whether the last renewal failed",
	"claim.slept":    "no machine sleeps in these worlds",
	"claim.amend":    "the explorer writes how far a goroutine's change has come",
	"claim.keep":     "the request, which has the same time",
	"turn.linger":    "everybody in a world lingers for as long",
	"turn.shares":    "the explorer writes the shares that a goroutine has",
	"turn.state":     "the explorer writes what a goroutine knows of its hold, and of a try whether it has met anybody",
}

// TestEveryFieldMatters removes each field from the encoding, and checks that the walk changes.
func TestEveryFieldMatters(t *testing.T) {
	worlds := []Config{
		{Name: "1x2", Clients: 1, Goroutines: 2, Wants: 1, Acts: plain | Close, Faults: 1, Kinds: Lost},
		{Name: "2x1", Clients: 2, Goroutines: 1, Acts: plain, Strays: 1},
		{Name: "lost", Clients: 1, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Requests | Unsent | Early,
			Acts: plain | Close},
		{Name: "slow", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Slow, Acts: Lock | GiveUp, Strays: 1},
		{Name: "two faults", Clients: 1, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Lost | Dumb, Acts: Lock | GiveUp},
		{Name: "2x1, early", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Early | Lost, Acts: Lock},
		{Name: "reader and writer", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 1, Acts: plain | Share},
		{Name: "permits", Clients: 1, Goroutines: 3, Permits: true, Wants: 1, Acts: plain},
		{Name: "linger", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 1, Linger: 20 * ms, Acts: plain},
		{Name: "max hold", Clients: 1, Goroutines: 2, Wants: 1, MaxHold: 40 * ms, Acts: plain},
		{Name: "max hold, readers", Clients: 1, Goroutines: 2, Readers: []int{0, 1}, Wants: 1, MaxHold: 40 * ms,
			Acts: plain},
		{Name: "alarm", Clients: 1, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Slow, Acts: Lock | Alarm},
		{Name: "downgrade", Clients: 1, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Lost, Acts: Lock | Amend},
		{Name: "keep", Clients: 1, Goroutines: 2, Wants: 1, Keep: 20 * ms, Acts: Lock},
		{Name: "keep, lost", Clients: 1, Goroutines: 1, Wants: 1, Keep: 20 * ms, Acts: Lock, Faults: 1, Kinds: Requests},
		{Name: "silent", Clients: 1, Goroutines: 2, Wants: 1, Acts: plain | Close, Silent: true},
		{Name: "falls silent", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Mute, Acts: plain},
		{Name: "no queue", Clients: 2, Goroutines: 1, Wants: 1, Acts: plain, Unordered: true, Faults: 1, Kinds: Early},
	}
	whole := make([]*Result, len(worlds))
	for i := range worlds {
		whole[i] = Walk(&worlds[i], Limits{States: 1e5})
		if whole[i].Violation != nil || !whole[i].Done {
			t.Fatalf("%s: %d states, %v", worlds[i].Name, whole[i].States, whole[i].Violation)
		}
		t.Logf("%s: %d states", worlds[i].Name, whole[i].States)
	}
	for f := engine.NoField + 1; f < engine.Fields; f++ {
		found := ""
		for i, conf := range worlds {
			conf.skip = f
			if r := Walk(&conf, Limits{States: 1e5}); r.States != whole[i].States || r.Violation != nil {
				found = conf.Name
				break
			}
		}
		if (found == "") != (implied[f.String()] != "") {
			t.Errorf("without %v something changes in: %q; it is said to be implied by: %q", f, found, implied[f.String()])
		}
		t.Logf("%v: %s", f, found)
	}
}

// TestKeptPartsAreTheSame checks that a hash with kept parts of clients equals a hash without them.
func TestKeptPartsAreTheSame(t *testing.T) {
	for _, conf := range []Config{
		{Name: "tries", Clients: 2, Goroutines: 1, Acts: plain, Strays: 1},
		{Name: "requests", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Requests | Unsent, Acts: Lock | GiveUp},
		{Name: "claims removed", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Drift | Break | Late, Acts: Lock},
		{Name: "pauses", Clients: 3, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Pause | Sleep, Acts: Lock | Close},
		{Name: "detach", Clients: 2, Goroutines: 1, Wants: 1, Acts: Lock | Detach | Alarm | Amend, Unordered: true},
		{Name: "readers and writers", Clients: 2, Goroutines: 2, Readers: []int{0}, Wants: 1, Keep: 20 * ms, Acts: Lock},
	} {
		t.Run(conf.Name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			from, to := &World{enc: &coder{}}, &World{enc: &coder{}}
			kept := 0
			for range 200 {
				from.CopyFrom(New(&conf))
				for range 100 {
					from.Hash()
					events := from.Events(nil)
					if len(events) == 0 {
						break
					}
					to.CopyFrom(from)
					for _, ev := range events {
						to.back(from)
						if err := to.Step(ev); err != nil {
							t.Fatal(err)
						}
						for i := range to.clients {
							kept += bit(to.parts[i].on != 0)
						}
						got := to.Hash()
						to.hashed, to.parts = false, [mostClients]part{}
						if want := to.Hash(); got != want {
							t.Fatalf("after %v the hash is %x with the parts that are kept, and %x anew", ev, got, want)
						}
					}
					to.back(from)
					if err := to.Step(events[random.IntN(len(events))]); err != nil {
						t.Fatal(err)
					}
					from.CopyFrom(to)
				}
			}
			if kept == 0 {
				t.Error("no part is kept")
			}
		})
	}
}
