package drivertest

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestCleanIsCaught checks that a store that cleans too early, too late, too little or too much fails the case.
func TestCleanIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left   [3]int // the names that are left after each step
		leaves bool   // cleaning removes the claims in use
		caught bool
	}{
		"as it should":                          {left: [3]int{15, 10, 8}},
		"names just left are removed":           {left: [3]int{10, 10, 8}, caught: true},
		"claims that have just run out are too": {left: [3]int{15, 8, 8}, caught: true},
		"names stay":                            {left: [3]int{15, 15, 15}, caught: true},
		"names of the dead stay":                {left: [3]int{15, 10, 10}, caught: true},
		"claims in use are removed":             {left: [3]int{15, 10, 8}, leaves: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Cleaning = func(testing.TB) *Cleaning {
				d, step := memory.NewStore().Driver(), -1
				return &Cleaning{
					Driver: d,
					Later:  func(time.Duration) { step++ },
					Clean: func() error {
						if !test.leaves || step < 2 {
							return nil
						}
						_, err := d.Break(t.Context(), &driver.BreakRequest{Name: "used/0"})
						return err
					},
					Names: func() int { return test.left[step] },
				}
			}
			finds(t, "Clean", s, test.caught)
		})
	}
}
