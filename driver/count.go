package driver

import (
	"fmt"
)

// A name's own count of permits is kept by the store, apart from the claims, and may change while they hold and wait. A claim
// of capacity 0 goes by it. Only a store with [Traits.Counts] keeps counts. There:
//
//   - A claim that holds goes on holding, whatever the count becomes.
//   - A claim that waits holds once those before it hold and its permits, with those that are held, are at most the count.
//     It is woken when the count rises. One of more permits than the count waits, and so do those behind it.
//   - A name that has no count, or another value in its place, lets no claim of capacity 0 enter or wait: the error is a
//     refusal that says so.
//   - A claim of capacity 0 and one that says a number exclude each other, with a [*CapacityError], unless the number is
//     the count at the moment when the later one enters.

// MaxCount is the largest count of permits.
const MaxCount = All - 1

// Uncounted refuses a claim of capacity 0. A driver whose traits lack Counts begins Enter with it.
func (c *Claim) Uncounted() error {
	if c.Capacity != 0 {
		return nil
	}
	return fmt.Errorf("%w: it keeps no count of permits of the name's own, as ZooKeeper does with layout=semaphore; say how many there are",
		ErrUnsupported)
}

// Removes refuses every request by hand except the removal of a claim. A driver that can do nothing else begins Break with
// it.
func (b *BreakRequest) Removes() error {
	if b.Ask {
		return fmt.Errorf("%w: it cannot ask a holder for its lock", ErrUnsupported)
	}
	return b.Uncounted()
}

// Uncounted refuses a request to change a count. A driver whose traits lack Counts begins Break with it.
func (b *BreakRequest) Uncounted() error {
	if b.Count == nil {
		return nil
	}
	return fmt.Errorf("%w: it keeps no count of permits that could be changed, as ZooKeeper does with layout=semaphore", ErrUnsupported)
}

// CheckCount returns why a number cannot be a count of permits.
func CheckCount(n int64) error {
	if n < 0 || n > MaxCount {
		return fmt.Errorf("a count of permits is from 0 to %d, not %d", MaxCount, n)
	}
	return nil
}
