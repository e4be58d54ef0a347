package drivertest

import (
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Jump is three clients of a store whose wall clocks differ by a jump. The suite closes the clients.
type Jump struct {
	Before driver.Driver
	Within driver.Driver // to it, it is less than half a minute later
	Past   driver.Driver // to it, it is more than a minute later; nil: time cannot be made to go on
}

var clockCases = []Case{
	{"Clocks", "A lease lasts for its time and no longer, whatever the clocks on the wall show meanwhile.", 0, clocks},
}

func clocks(r *run) {
	for _, what := range slices.Sorted(maps.Keys(r.store.Jumps)) {
		j := r.store.Jumps[what](r)
		held := r.claim()
		held.Name += "/" + rand.Text()
		held.TTL = time.Minute
		held.Ticket = r.holds(j.Before, held).Ticket
		if _, got := r.tries(j.Within, held); got {
			r.Errorf("%s: another holds within the lease", what)
		}
		if j.Past != nil {
			if _, got := r.tries(j.Past, held); !got {
				r.Errorf("%s: nobody holds after the lease", what)
			}
			j.Past.Close()
		}
		j.Before.Close()
		j.Within.Close()
	}
}
