package drivertest

import (
	"context"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestForeignIsCaught checks the case with drivers that do not see another program's lock, are not seen, or never learn that
// it is free.
func TestForeignIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unseeing, unseen, deaf, blind bool
		caught                        bool
	}{
		"as it should":                          {},
		"the other is blind, as is known":       {unseen: true, blind: true},
		"the other's lock is not seen":          {unseeing: true, caught: true},
		"the driver's lock is not seen":         {unseen: true, caught: true},
		"that the other has left is not heard":  {deaf: true, caught: true},
		"the lock of one that is blind is free": {unseeing: true, blind: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, theirs := memory.NewStore(), map[string]bool{}
			open := func(testing.TB) driver.Driver {
				return &buggy{Driver: store.Driver(), enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
					if _, known := theirs[c.Name]; known && (test.deaf || theirs[c.Name]) && !test.unseeing {
						if test.deaf && !theirs[c.Name] && !c.Try {
							return driver.Place{}, context.DeadlineExceeded
						}
						return driver.Place{Ahead: 1}, nil
					}
					return d.Enter(ctx, c)
				}, await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
					return driver.Place{}, nil
				}}
			}
			s := Store{Open: open, Foreign: map[string]func(testing.TB, string) *Foreign{
				"program": func(t testing.TB, name string) *Foreign {
					d := store.Driver()
					return &Foreign{
						Blind: test.blind,
						Holds: func() bool {
							list, err := d.List(t.Context(), &driver.Query{Name: name})
							if err != nil {
								t.Fatal(err)
							}
							theirs[name] = len(list) == 0 || test.unseen
							return theirs[name]
						},
						Leave: func() { theirs[name] = false },
					}
				},
			}}
			finds(t, "Foreign", s, test.caught)
		})
	}
}
