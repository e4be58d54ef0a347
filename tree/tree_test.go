package tree_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/tree"
)

func open(t *testing.T, d driver.Driver) *stile.Client {
	t.Helper()
	c, err := stile.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestMutex(t *testing.T) {
	store := memory.NewStore()
	a, b := open(t, store.Driver()), open(t, store.Driver())
	for _, tt := range []struct {
		held, wanted []string
		free         bool
	}{
		{[]string{"x"}, []string{"x"}, false},
		{[]string{"x"}, []string{"x/1"}, false},
		{[]string{"x/1"}, []string{"x"}, false},
		{[]string{"x"}, []string{"x/1/2/3"}, false},
		{[]string{"x/1/2/3"}, []string{"x"}, false},
		{[]string{"x/1/2/3"}, []string{"x/1"}, false},
		{[]string{"x/1"}, []string{"x/2"}, true},
		{[]string{"x/1/2"}, []string{"x/1/3"}, true},
		{[]string{"x"}, []string{"y"}, true},
		{[]string{"x"}, []string{"xy"}, true},
		{[]string{"x"}, []string{"xy/1"}, true},
		{[]string{"x/1", "x/2"}, []string{"x/3"}, true},
		{[]string{"x/1", "x/2"}, []string{"x/2/9"}, false},
		{[]string{"x/1", "y/1"}, []string{"y"}, false},
	} {
		held, err := tree.Mutex(a, tt.held...).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lease, err := tree.Mutex(b, tt.wanted...).TryLock(t.Context())
		switch {
		case tt.free && err != nil, !tt.free && !errors.Is(err, stile.ErrHeld):
			t.Errorf("%q while %q is held: %v; want it to be had: %v", tt.wanted, tt.held, err, tt.free)
		case err == nil:
			err = lease.Unlock()
		default:
			err = nil
		}
		if err := errors.Join(err, held.Unlock()); err != nil {
			t.Error(err)
		}
	}
}

func TestMutexRefuses(t *testing.T) {
	c := open(t, memory.NewStore().Driver())
	for _, paths := range [][]string{{}, {""}, {"/x"}, {"x/"}, {"x//y"}, {"x", "x"}, {"x", "x/1"}, {"x/1/2", "x"}, {"y", ""}} {
		if _, err := tree.Mutex(c, paths...).TryLock(t.Context()); !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("%q: %v; want ErrInvalid", paths, err)
		}
	}
	if _, err := tree.Mutex(nil, "x").TryLock(t.Context()); !errors.Is(err, stile.ErrInvalid) {
		t.Errorf("no client: %v; want ErrInvalid", err)
	}
	plain := open(t, writers{memory.NewStore().Driver()})
	if _, err := tree.Mutex(plain, "x/1").TryLock(t.Context()); !errors.Is(err, stile.ErrUnsupported) {
		t.Errorf("a store without readers: %v; want ErrUnsupported", err)
	}
}

// writers is a store without shared locks.
type writers struct{ *memory.Driver }

func (w writers) Traits() driver.Traits {
	t := w.Driver.Traits()
	t.Shared, t.Permits = false, false
	return t
}

// The holder of a path excludes all others from the path and everything below it, whatever paths others take and in whatever
// order; and all of them finish.
func TestMutexExcludes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := memory.NewStore()
	paths := []string{"m", "m/1", "m/2", "m/2/a", "m/2/b"}
	inside := map[string]*atomic.Int32{}
	for _, path := range paths {
		inside[path] = &atomic.Int32{}
	}
	busy := func(path string) (n int32) {
		for other, in := range inside {
			if other == path || len(other) > len(path) && other[:len(path)+1] == path+"/" {
				n += in.Load()
			}
		}
		return n
	}
	var group sync.WaitGroup
	for i := range 6 {
		c, random := open(t, store.Driver()), rand.New(rand.NewPCG(1, uint64(i)))
		group.Go(func() {
			for range 60 {
				path := paths[random.IntN(len(paths))]
				if err := tree.Mutex(c, path).Do(ctx, func(context.Context) error {
					inside[path].Add(1)
					defer inside[path].Add(-1)
					if n := busy(path); n != 1 {
						return fmt.Errorf("%d are at work at %s or below", n, path)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// The token for the data at a path is the token of the path's part.
func ExampleMutex() {
	ctx := context.Background()
	locks, err := stile.New(memory.NewStore().Driver(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	lease, err := tree.Mutex(locks, "market/item/5").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range lease.Parts() {
		fmt.Println(part.Name(), part.Token() > 0)
	}
	_, err = tree.Mutex(locks, "market").LockWithin(ctx, time.Second)
	fmt.Println("the whole market:", errors.Is(err, stile.ErrHeld))
	if err := lease.Unlock(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// market true
	// market/item true
	// market/item/5 true
	// the whole market: true
}
