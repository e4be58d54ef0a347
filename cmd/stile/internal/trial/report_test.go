package trial

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// A clock that was set, and tokens that fell, are found out.
func TestReportOfProbe(t *testing.T) {
	fine := driver.Traits{Store: "x", Fencing: driver.ClockFencing, Granularity: time.Millisecond}
	for _, test := range []struct {
		name  string
		probe *probing
		want  int
	}{
		{"all is well", &probing{rose: true, told: true, drift: 3 * time.Millisecond}, 0},
		{"the clock went ahead", &probing{rose: true, told: true, drift: time.Second}, Warnings},
		{"the clock went back", &probing{rose: true, told: true, drift: -time.Second}, Warnings},
		{"each look took half a second", &probing{rose: true, told: true, drift: time.Second, vague: time.Second}, 0},
		{"the clock shows whole seconds", &probing{rose: true, told: true, drift: time.Second, step: time.Second}, 0},
		{"the clock is not told", &probing{rose: true, drift: time.Second}, 0},
		{"tokens fell", &probing{}, Unfit},
	} {
		r := &report{traits: fine, probe: test.probe}
		if got := r.status(); got != test.want {
			t.Errorf("%s: status %d; want %d", test.name, got, test.want)
		}
	}
}
