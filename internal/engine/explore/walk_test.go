package explore

import (
	"flag"
	"testing"
)

var most = flag.Int64("states", 3e5, "stop after so many states")
var only = flag.String("world", "", "walk only the world of this name")

func TestWorlds(t *testing.T) {
	for _, conf := range Small() {
		if *only != "" && conf.Name != *only {
			continue
		}
		t.Run(conf.Name, func(t *testing.T) {
			r := Walk(&conf, Limits{States: *most})
			t.Logf("%d states, %d transitions, depth %d, %v, %d MB, done %v", r.States, r.Transitions, r.Depth, r.Time, r.Memory>>20, r.Done)
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}
