package drivertest

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestClocksIsCaught checks that the case finds a lease that ends too early after a jump, and one that does not end.
func TestClocksIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ early, never, caught bool }{
		"as it should":         {},
		"the lease ends early": {early: true, caught: true},
		"the lease never ends": {never: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Jumps = map[string]func(testing.TB) *Jump{"summer time begins": func(testing.TB) *Jump {
				held, free := memory.NewStore(), memory.NewStore()
				of := func(taken bool) driver.Driver {
					if taken {
						return held.Driver()
					}
					return free.Driver()
				}
				return &Jump{Before: held.Driver(), Within: of(!test.early), Past: of(test.never)}
			}}
			finds(t, "Clocks", s, test.caught)
		})
	}
}
