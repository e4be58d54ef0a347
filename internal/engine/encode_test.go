package engine

import (
	"reflect"
	"testing"
)

// unencoded are the fields that an encoding leaves out, and why that does no harm.
var unencoded = map[string]string{
	"Engine.Slept":   "compared with claim.slept, there",
	"Engine.conf":    "the same for all states of a world",
	"Engine.lines":   "each is encoded",
	"Engine.waiters": "each is encoded, in its line",
	"Engine.claims":  "each is encoded, in its line",
	"Engine.holds":   "each is encoded, in its claim",
	"Engine.moves":   "compared within one event only",
	"Engine.last":    "ids are ranks",
	"Engine.due":     "follows from the rest, as the explorer checks at each step",
	"Engine.effects": "empty between events",
	"line.first":     "waiters are encoded in order",
	"line.last":      "waiters are encoded in order",
	"line.length":    "the waiters are counted",
	"line.tries":     "counts waiters, as Check sees",
	"line.claims":    "counts claims, as Check sees",
	"line.strays":    "counts claims, as Check sees",
	"waiter.line":    "waiters are encoded in their lines",
	"waiter.prev":    "waiters are encoded in order",
	"waiter.next":    "waiters are encoded in order",
	"claim.line":     "claims are encoded in their lines",
	"claim.number":   "the explorer encodes which requests are read",
	"claim.err":      "told, and decides nothing",
	"claim.hold":     "holds are encoded in order",
	"claim.holds":    "the holds are counted",
	"claim.live":     "counts holds, as Check sees",
	"claim.prev":     "the stack is encoded in order",
	"claim.next":     "the stack is encoded in order",
	"claim.stacked":  "the stack is encoded",
	"hold.claim":     "holds are encoded in their claims",
	"hold.prev":      "holds are encoded in order",
	"hold.next":      "holds are encoded in order",
	"hold.token":     "told, and decides nothing",
	"hold.since":     "told, and decides nothing",
}

func TestEncodingIsWhole(t *testing.T) {
	encoded := map[string]bool{}
	for f := NoField + 1; f < Fields; f++ {
		encoded[f.String()] = true
	}
	known := map[string]bool{}
	for _, v := range []any{Engine{}, line{}, waiter{}, claim{}, hold{}} {
		for f := range reflect.TypeOf(v).Fields() {
			name := reflect.TypeOf(v).Name() + "." + f.Name
			known[name] = true
			if encoded[name] == (unencoded[name] != "") {
				t.Errorf("%s is encoded: %v; said to be left out: %q", name, encoded[name], unencoded[name])
			}
		}
	}
	for name := range encoded {
		if !known[name] {
			t.Errorf("%s is encoded, and is no field", name)
		}
	}
	for name := range unencoded {
		if !known[name] {
			t.Errorf("%s is said to be left out, and is no field", name)
		}
	}
}
