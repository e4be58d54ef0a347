package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestMishapIsCaught recreates a store while a claim holds. The case must find a holder that does not notice, tickets that
// restart, and a client that others do not see, and must pass a correct store.
func TestMishapIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		blind, low, keeps, stuck, wild, deaf, told bool
		caught                                     bool
	}{
		"the holder finds out":          {told: true},
		"the holder does not find out":  {blind: true, caught: true},
		"the holder need not be told":   {deaf: true},
		"the holder is not told":        {deaf: true, told: true, caught: true},
		"tickets begin anew":            {low: true, caught: true},
		"the claim ought to be kept":    {keeps: true, caught: true},
		"the name is taken for ever":    {stuck: true, caught: true},
		"a leave removes another":       {wild: true, caught: true},
		"nobody knows, and low tickets": {blind: true, low: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Mishaps = map[string]func(testing.TB) *Mishap{"the store is made anew": func(testing.TB) *Mishap {
				store, happened, opened := memory.NewStore(), false, 0
				return &Mishap{
					Keeps: test.keeps, Frees: !test.keeps && !test.deaf, Told: test.told,
					Happens: func() { store, happened = memory.NewStore(), true },
					Open: func() (driver.Driver, error) {
						old := store.Driver()
						opened++
						deaf := test.deaf && opened <= 3 // the last comes when all are closed
						return &buggy{Driver: old,
							enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
								if happened && deaf {
									return driver.Place{}, driver.Refused(errors.New("open it again"))
								}
								if happened {
									d = store.Driver()
								}
								p, err := d.Enter(ctx, c)
								if happened && test.low {
									p.Ticket = 1
								}
								p.Holds = p.Holds && !(happened && test.stuck)
								return p, err
							},
							renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
								if happened && (test.blind || deaf) {
									return make([]driver.Renewal, len(cs))
								}
								if happened {
									d = store.Driver()
								}
								return d.Renew(ctx, cs)
							},
							leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
								if happened {
									d = store.Driver()
								}
								if happened && test.wild {
									_, err := d.Break(ctx, &driver.BreakRequest{Name: l.Claim.Name})
									return err
								}
								return d.Leave(ctx, l)
							},
						}, nil
					},
				}
			}}
			finds(t, "Mishap", s, test.caught)
		})
	}
}

// TestMishapThatEndsIsCaught checks that the case finds a client that confirms claims while its store refuses them, and one
// that refuses for ever.
func TestMishapThatEndsIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ confirms, stays, caught bool }{
		"all is well":            {},
		"a renewal is confirmed": {confirms: true, caught: true},
		"it refuses for good":    {stays: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Mishaps = map[string]func(testing.TB) *Mishap{"the store refuses": func(testing.TB) *Mishap {
				store, refuses := memory.NewStore(), false
				return &Mishap{
					Keeps: true, Back: time.Millisecond,
					Happens: func() { refuses = true },
					Over:    func() { refuses = test.stays },
					Open: func() (driver.Driver, error) {
						return &buggy{Driver: store.Driver(),
							enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
								if refuses {
									return driver.Place{}, driver.Refused(errors.New("not now"))
								}
								return d.Enter(ctx, c)
							},
							renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
								if refuses && !test.confirms {
									return []driver.Renewal{{Err: driver.Refused(errors.New("not now"))}}
								}
								return d.Renew(ctx, cs)
							},
						}, nil
					},
				}
			}}
			finds(t, "Mishap", s, test.caught)
		})
	}
}
