package drivertest

import (
	"context"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestLostMidwayIsCaught checks that the case finds a client that takes a lost answer for a refusal, or for an answer.
func TestLostMidwayIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says   func(error) error
		caught bool
	}{
		"unknown": {says: func(err error) error { return err }},
		"refused": {says: driver.Refused, caught: true},
		"yes":     {says: func(error) error { return nil }, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.NewStore()
			s := Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
			s.Losses = map[string]func(testing.TB) *Loss{"a relay says": func(t testing.TB) *Loss {
				late := lateCalls(store.Driver())
				return &Loss{Detour: Detour{saying{late.Driver, test.says}, late.Way}, Other: store.Driver()}
			}}
			finds(t, "LostMidway", s, test.caught)
		})
	}
}

// A saying driver returns another error for an Enter that failed.
type saying struct {
	driver.Driver
	says func(error) error
}

func (s saying) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := s.Driver.Enter(ctx, c)
	if err != nil {
		err = s.says(err)
	}
	return p, err
}
