package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestBehindIsCaught checks that a driver that trusts one server's answer fails the cases, and that another driver passes.
func TestBehindIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		without         string // the method that trusts one server
		stays, trusting bool
		caught          string
	}{
		"as it should":                   {},
		"an enter takes it for gone":     {without: "enter", caught: "Behind"},
		"a renewal takes it for gone":    {without: "renew", caught: "Behind"},
		"a claim stays":                  {stays: true, caught: "Behind"},
		"it holds although others might": {trusting: true, caught: "Alone"},
	} {
		for _, c := range Cases() {
			if c.Name != "Behind" && c.Name != "Alone" {
				continue
			}
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
				s.Behind = map[string]func(testing.TB) *Behind{"servers": func(testing.TB) *Behind {
					var past bool
					var gone []string
					var apart time.Time
					const session = 100 * time.Millisecond
					misled := func(c *driver.Claim, method string) bool {
						if past && test.without == method {
							gone = append(gone, c.ID)
						}
						return slices.Contains(gone, c.ID)
					}
					b := &Behind{
						FallsBehind: func() { past = true }, CatchesUp: func() { past = false },
						Alone: func() { apart = time.Now() }, Session: session,
						Left: func() int {
							if test.stays {
								return 1
							}
							return 0
						},
					}
					b.Driver = &buggy{Driver: memory.NewStore().Driver(),
						enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
							if misled(c, "enter") {
								return driver.Place{}, driver.ErrGone
							}
							p, err := d.Enter(ctx, c)
							if !apart.IsZero() && !test.trusting {
								p.TTL = max(0, session-time.Since(apart)-10*time.Millisecond)
							}
							return p, err
						},
						renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
							if misled(cs[0], "renew") {
								return []driver.Renewal{{Err: driver.ErrGone}}
							}
							return d.Renew(ctx, cs)
						},
					}
					return b
				}}
				finds(t, c.Name, s, test.caught == c.Name)
			})
		}
	}
}
