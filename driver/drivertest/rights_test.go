package drivertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestRightsIsCaught checks that the case finds a client that reports a missing right as an outage, or refuses only some
// names, and passes a correct client.
func TestRightsIsCaught(t *testing.T) {
	t.Parallel()
	refused := driver.Refused(errors.New("no right"))
	away := driver.Unsent(driver.Unreachable(errors.New("no connection")))
	for name, test := range map[string]struct {
		open, enter, renew error
		some               bool // only some names are refused
		caught             bool
	}{
		"refused at once":             {open: refused},
		"an outage at once":           {open: away, caught: true},
		"refused by a call":           {enter: refused},
		"refused to renew":            {renew: refused},
		"an outage, says a call":      {enter: away, caught: true},
		"an outage, says a renewal":   {renew: away, caught: true},
		"of some names it is refused": {enter: refused, some: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Lacking = map[string]func(testing.TB) func() (driver.Driver, error){"a right": func(testing.TB) func() (driver.Driver, error) {
				d := &buggy{Driver: memory.NewStore().Driver(),
					enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
						if test.enter != nil && (!test.some || strings.HasSuffix(c.Name, "/3")) {
							return driver.Place{}, test.enter
						}
						return d.Enter(ctx, c)
					},
					renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
						if test.renew != nil {
							return []driver.Renewal{{Err: test.renew}}
						}
						return d.Renew(ctx, cs)
					},
				}
				return func() (driver.Driver, error) { return d, test.open }
			}}
			finds(t, "Rights", s, test.caught)
		})
	}
}
