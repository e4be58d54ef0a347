package claims

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/store/memory"
)

// unordered is a store without a queue.
type unordered struct{ *memory.Driver }

func (u unordered) Traits() driver.Traits {
	t := u.Driver.Traits()
	t.Ordered = false
	return t
}

// What is known of names that nobody uses is forgotten soon, also if nothing is locked any more.
func TestYieldsOfUnusedNamesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(unordered{memory.New()}, Config{Turn: time.Millisecond, Drift: 0.005, Patience: time.Second})
		defer k.Close()
		known := func() int {
			k.yields.mu.Lock()
			defer k.yields.mu.Unlock()
			return len(k.yields.byName)
		}
		const names = 1000
		for i := range names {
			s, err := k.Acquire(context.Background(), &Want{Name: fmt.Sprint(i), Terms: &protocol.Terms{
				Weight: driver.All, Capacity: driver.All, TTL: time.Minute,
			}}, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Release(0); err != nil {
				t.Fatal(err)
			}
		}
		if n := known(); n != names {
			t.Errorf("%d names are known; want all, for a while", n)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n := known(); n != 0 {
			t.Errorf("%d names are known two seconds later; want none", n)
		}
		if n := k.Names(); n != 0 {
			t.Errorf("the keeper minds %d names", n)
		}
	})
}
