package engine

import (
	"reflect"
	"testing"
)

// unencoded are the fields that an encoding leaves out, and why that does no harm.
var unencoded = map[string]string{
	"Common.Slept":   "compared with claim.slept, there",
	"Common.Conf":    "the same for all states of a world",
	"Engine.lines":   "each is encoded",
	"Engine.claims":  "each is encoded, in its line",
	"Engine.turns":   "each is encoded, in its line or claim",
	"Common.moves":   "compared within one event only",
	"Common.last":    "ids are ranks",
	"Engine.due":     "follows from the rest, as the explorer checks at each step",
	"Common.effects": "empty between events",
	"Engine.common":  "each field is in this list",
	"line.waiters":   "each is encoded, in order",
	"line.tries":     "counts waiters, as Check sees",
	"line.claims":    "counts claims, as Check sees",
	"line.strays":    "counts claims, as Check sees",
	"claim.line":     "claims are encoded in their lines",
	"claim.number":   "the explorer encodes which requests are read",
	"claim.holds":    "each is encoded, in order",
	"claim.live":     "counts holds, as Check sees",
	"claim.ripe":     "no later than the end of any hold, which is encoded",
	"claim.links":    "the stack is encoded in order",
	"claim.free":     "the stack is encoded",
	"turn.in":        "turns are encoded in their lines and claims",
	"turn.links":     "turns are encoded in order",
	"turn.number":    "told, and decides nothing",
}

func TestEncodingIsWhole(t *testing.T) {
	encoded := map[string]bool{}
	for f := NoField + 1; f < Fields; f++ {
		encoded[f.String()] = true
	}
	known := map[string]bool{}
	for _, v := range []any{Engine{}, Common{}, line{}, claim{}, turn{}} {
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
