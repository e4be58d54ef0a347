//go:build unix

package servertest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestHostEndsTheLastFirst(t *testing.T) {
	t.Parallel()
	var h Host
	var order []int
	for i := range 3 {
		h.Cleanup(func() { order = append(order, i) })
	}
	h.End()
	h.End()
	if want := []int{2, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("ended in the order %v, want %v", order, want)
	}
}

// Plays of a program start servers at once, and none of them may be left behind.
func TestHostIsForAllGoroutines(t *testing.T) {
	t.Parallel()
	const size = 1000
	var h Host
	var ended atomic.Int32
	var work sync.WaitGroup
	for range size {
		work.Go(func() { h.Cleanup(func() { ended.Add(1) }) })
	}
	work.Wait()
	h.End()
	if got := ended.Load(); got != size {
		t.Errorf("%d of %d were ended", got, size)
	}
}
