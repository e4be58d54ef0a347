package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestEdgeIsCaught checks that a driver that compares tickets as texts, or counts them in 32 bits, fails the case.
func TestEdgeIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		compare func(a, b int64) int
		count   func(ticket int64) int64
		caught  bool
	}{
		"as it should":          {cmp.Compare[int64], func(n int64) int64 { return n }, false},
		"compared as texts":     {func(a, b int64) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }, func(n int64) int64 { return n }, true},
		"counted in 32 bits":    {cmp.Compare[int64], func(n int64) int64 { return int64(int32(n)) }, true},
		"counted in few digits": {cmp.Compare[int64], func(n int64) int64 { return n % 1_000_000_000 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }, Edge: map[string]func(testing.TB, string) driver.Driver{}}
			for _, from := range []int64{7, 999_999_997, 1<<31 - 3} {
				s.Edge[fmt.Sprint("above ", from)] = func(testing.TB, string) driver.Driver { return counting(from, test.compare, test.count) }
			}
			finds(t, "Edge", s, test.caught)
		})
	}
}

// counting returns a driver that has already given a ticket, and that counts and compares the next ones by functions.
func counting(last int64, compare func(a, b int64) int, count func(ticket int64) int64) driver.Driver {
	type entry struct {
		id     string
		ticket int64
	}
	var queue []entry
	return &buggy{Driver: memory.NewStore().Driver(),
		enter: func(_ context.Context, _ *memory.Driver, c *driver.Claim) (driver.Place, error) {
			own := func(e entry) bool { return e.id == c.ID }
			if !slices.ContainsFunc(queue, own) {
				last++
				queue = append(queue, entry{c.ID, count(last)})
				slices.SortStableFunc(queue, func(a, b entry) int { return compare(a.ticket, b.ticket) })
			}
			at := slices.IndexFunc(queue, own)
			return driver.Place{Ticket: queue[at].ticket, Holds: at == 0, Ahead: at}, nil
		},
		leave: func(_ context.Context, _ *memory.Driver, l *driver.Release) error {
			queue = slices.DeleteFunc(queue, func(e entry) bool { return e.id == l.Claim.ID })
			return nil
		},
	}
}
