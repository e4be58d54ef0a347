package drivertest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A countedWay counts a client's calls.
type countedWay struct {
	CallWay
	asked  atomic.Int64
	struck atomic.Bool
}

func (w *countedWay) Asked() int { return int(w.asked.Load()) }

func (w *countedWay) Freeze(requests, answers bool) {
	w.struck.Store(true)
	w.CallWay.Freeze(requests, answers)
}

// TestOutageIsCaught checks that the case finds a client that asks again and again after an outage, and one that is refused,
// and passes a correct client.
func TestOutageIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ deaf, refused, caught bool }{
		"all is well":               {},
		"a client does not hear":    {deaf: true, caught: true},
		"a claim that waits is out": {refused: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.NewStore()
			s := Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
			s.Detour = func(testing.TB) *Detour {
				way := &countedWay{}
				d := &buggy{Driver: store.Driver(),
					enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
						way.asked.Add(1)
						return d.Enter(ctx, c)
					},
					await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
						if way.struck.Load() && test.refused {
							return driver.Place{}, driver.Refused(errors.New("out"))
						}
						if way.struck.Load() && test.deaf {
							ended, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
							defer cancel()
							<-ended.Done()
							return driver.Place{}, ctx.Err()
						}
						return d.Await(ctx, c)
					}}
				return &Detour{d, way}
			}
			finds(t, "Outage", s, test.caught)
		})
	}
}

// TestDeposedIsCaught checks that the case finds a grant of the replaced server, and a claim that waits in vain, and passes
// a correct store.
func TestDeposedIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ grants, refused, forgets, caught bool }{
		"all is well":                  {},
		"it grants what is another's":  {grants: true, caught: true},
		"a claim that waits is out":    {refused: true, caught: true},
		"the claim that holds is gone": {forgets: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, other := memory.NewStore(), memory.NewStore()
			s := Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
			s.Failover = func(testing.TB) *Failover {
				var taken atomic.Bool
				still, on := make(chan struct{}), make(chan struct{})
				return &Failover{
					StandsStill: func() { close(still) }, TakesOver: func() { taken.Store(true) }, GoesOn: func() { close(on) },
					Open: func() driver.Driver {
						return &buggy{Driver: store.Driver(),
							enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
								select {
								case <-still:
								default:
									return d.Enter(ctx, c)
								}
								if c.Try && !taken.Load() {
									<-on
									if test.grants {
										d = other.Driver()
									}
								}
								return d.Enter(ctx, c)
							},
							await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
								if !test.refused {
									return d.Await(ctx, c)
								}
								<-still
								return driver.Place{}, driver.Refused(errors.New("out"))
							},
							leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
								if test.forgets {
									return driver.ErrGone
								}
								return d.Leave(ctx, l)
							},
						}
					},
				}
			}
			finds(t, "Deposed", s, test.caught)
		})
	}
}
