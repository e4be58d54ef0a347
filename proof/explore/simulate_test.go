package explore

import (
	"flag"
	"fmt"
	"testing"
)

var (
	seeds = flag.Uint64("seeds", 500, "how many seeds each world is simulated with")
	seed  = flag.Uint64("seed", 0, "the first of them")
)

// TestSimulation takes random steps in worlds that are too large for a walk.
func TestSimulation(t *testing.T) {
	for _, conf := range []Config{
		{Name: "3x3", Clients: 3, Goroutines: 3, Faults: 4, Kinds: All, Acts: plain | Share | Alarm, Linger: 20 * ms,
			Turn: 40 * ms},
		{Name: "closing", Clients: 3, Goroutines: 2, Faults: 6, Kinds: Requests | Pause, Acts: plain | Close},
		{Name: "readers", Clients: 2, Goroutines: 4, Readers: []int{0, 1, 2}, Faults: 3, Kinds: All, Acts: plain,
			MaxHold: 40 * ms},
		{Name: "permits", Clients: 3, Goroutines: 3, Permits: true, Faults: 3, Kinds: All, Acts: plain | Alarm,
			Linger: 20 * ms},
		{Name: "no faults", Clients: 3, Goroutines: 3, Acts: plain | Alarm},
		{Name: "no queue", Clients: 3, Goroutines: 2, Faults: 4, Kinds: All, Acts: plain, Unordered: true},
		{Name: "detach", Clients: 3, Goroutines: 2, Faults: 2, Kinds: All &^ (Twice | Late | Slow),
			Acts: Lock | Detach | Share | Cross, MaxHold: 40 * ms},
		{Name: "steps apart", Clients: 3, Goroutines: 2, Faults: 4, Kinds: Requests, Acts: plain, Split: true},
	} {
		t.Run(conf.Name, func(t *testing.T) {
			t.Parallel()
			for n := range *seeds {
				if err := Simulate(&conf, *seed+n, 400); err != nil {
					t.Fatal(fmt.Errorf("seed %d:\n%w", *seed+n, err))
				}
			}
		})
	}
}
