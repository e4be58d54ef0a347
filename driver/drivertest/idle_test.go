package drivertest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A hoarder reports a number of remembered things, by the claims that left and the beats.
type hoarder struct {
	buggy
	kept func(left, beats int) int
	left *atomic.Int64
	idle *Idle
}

func (h *hoarder) Remembered() int { return h.kept(int(h.left.Load()), h.idle.Beats()) }

// TestIdleIsCaught checks that a client that remembers each claim or each beat fails the case, and that one that forgets
// them in time passes.
func TestIdleIsCaught(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == "Idle" })
	for name, test := range map[string]struct {
		kept   func(left, beats int) int
		anew   int // its connection is replaced once, after this many beats
		caught bool
	}{
		"nothing":                           {func(int, int) int { return 0 }, 0, false},
		"some claims and some beats":        {func(left, beats int) int { return min(left, 40) + min(beats, 8) }, 0, false},
		"all claims":                        {func(left, _ int) int { return left }, 0, true},
		"all beats":                         {func(_, beats int) int { return beats }, 0, true},
		"all beats, with a new connection":  {func(_, beats int) int { return beats }, 10, true},
		"some beats, with a new connection": {func(_, beats int) int { return min(beats, 8) }, 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Idle = func(testing.TB) *Idle {
				h, beats, renewed := &hoarder{kept: test.kept, left: &atomic.Int64{}}, 0, false
				h.Driver = memory.NewStore().Driver()
				h.leave = func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
					h.left.Add(1)
					return d.Leave(ctx, l)
				}
				h.idle = &Idle{h, func() int { // each look is a beat
					if beats++; beats == test.anew && !renewed {
						beats, renewed = 0, true
					}
					return beats
				}}
				return h.idle
			}
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				check(r, s, s.Open(t), s.Open(t), Cases()[i])
			}()
			if <-done; len(r.failures) > 0 != test.caught {
				t.Errorf("the case fails with %q; want that it fails: %v", r.failures, test.caught)
			}
		})
	}
}
