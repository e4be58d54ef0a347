package drivertest

import (
	"context"
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestOneDownIsCaught puts one of two servers out of reach. The case must find a batch of renewals that fails as a whole, a
// batch that does not mention the server, a permanent refusal, and a Leave that leaves a claim behind. It must pass a
// correct store.
func TestOneDownIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spare                       int
		whole, blind, refuses, lazy bool
		caught                      bool
	}{
		"all is well":                        {},
		"all is well, with one to spare":     {spare: 1},
		"a batch ends with its first server": {whole: true, caught: true},
		"nobody is told":                     {blind: true, caught: true},
		"a server out of reach refuses":      {refuses: true, caught: true},
		"a claim does not leave":             {spare: 1, lazy: true, caught: true},
		"a server that can be spared is not": {spare: 1, whole: true, refuses: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			down := -1
			unreachable := driver.Unsent(driver.Unreachable(errors.New("no connection")))
			if test.refuses {
				unreachable = driver.Refused(errors.New("no connection"))
			}
			of := func(c *driver.Claim) int { return int(c.Name[len(c.Name)-1]) % 2 }
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Several = func(testing.TB) *Several {
				store := memory.NewStore()
				return &Several{
					Servers: 2, Spare: test.spare, Down: func(i int) { down = i }, Up: func(int) { down = -1 },
					Open: func() driver.Driver {
						return &buggy{Driver: store.Driver(),
							renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
								all := d.Renew(ctx, cs)
								for i, c := range cs {
									lost := down >= 0 && of(c) == down && test.spare == 0
									if lost && !test.blind || test.whole && down >= 0 && of(cs[0]) == down {
										all[i] = driver.Renewal{Err: unreachable}
									}
								}
								return all
							},
							leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
								if test.lazy {
									return nil
								}
								return d.Leave(ctx, l)
							},
						}
					},
				}
			}
			finds(t, "OneDown", s, test.caught)
		})
	}
}
