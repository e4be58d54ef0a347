package drivertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestFullIsCaught checks that the case finds a full store that lets a new claim in, gives another error, or refuses a
// present claim, and passes a correct store.
func TestFullIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		enter, renew, keep, again string // the errors of these calls; "" is the right one
		free                      bool   // a lock is not kept taken
		caught                    bool
	}{
		"all is well":                         {enter: "no room"},
		"a claim enters":                      {caught: true},
		"the refusal does not say why":        {enter: "no", caught: true},
		"a renewal is refused":                {enter: "no room", renew: "no room", caught: true},
		"a claim cannot leave and be kept":    {enter: "no room", keep: "no room", caught: true},
		"who is kept is gone":                 {enter: "no room", free: true, caught: true},
		"whoever waits is refused as if anew": {enter: "no room", again: "no room", caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			isFull := false
			refuses := func(says string) error {
				if !isFull || says == "" {
					return nil
				}
				return driver.Refused(errors.New(says))
			}
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Full = func(testing.TB) *Full {
				store := memory.NewStore()
				return &Full{Says: "room", Renews: true, Turns: true, Fill: func() { isFull = true }, Open: func() driver.Driver {
					return &buggy{Driver: store.Driver(),
						enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
							says := ""
							if strings.HasSuffix(c.Name, "/new") {
								says = test.enter
							} else if c.Ticket != 0 {
								says = test.again
							}
							if err := refuses(says); err != nil {
								return driver.Place{}, err
							}
							return d.Enter(ctx, c)
						},
						renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
							if err := refuses(test.renew); err != nil {
								return []driver.Renewal{{Err: err}}
							}
							return d.Renew(ctx, cs)
						},
						leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
							if l.Keep == time.Minute {
								if err := refuses(test.keep); err != nil {
									return err
								}
								if test.free {
									l = &driver.Release{Claim: l.Claim}
								}
							}
							return d.Leave(ctx, l)
						},
					}
				}}
			}
			finds(t, "Full", s, test.caught)
		})
	}
}
