package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

var (
	_ driver.Driver  = (*memory.Driver)(nil)
	_ driver.Lister  = (*memory.Driver)(nil)
	_ driver.Watcher = (*memory.Driver)(nil)
	_ driver.Breaker = (*memory.Driver)(nil)
)

func claim(id string) *driver.Claim {
	return &driver.Claim{
		Name: "a", ID: id, Client: id, Weight: driver.All, Capacity: driver.All,
		TTL: 10 * time.Second, Wait: 3 * time.Second,
	}
}

func enter(t *testing.T, d *memory.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Enter(t.Context(), c)
	if err != nil {
		t.Fatalf("enter %s: %v", c.ID, err)
	}
	return p
}

func TestAwaitEndsWhenTheHolderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := memory.New()
		b := a.Store().Driver()
		enter(t, a, claim("1"))
		second := claim("2")
		enter(t, b, second)
		go func() {
			time.Sleep(time.Second)
			if err := a.Leave(context.Background(), &driver.Release{Claim: claim("1")}); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		p, err := b.Await(t.Context(), second)
		if err != nil || !p.Holds || time.Since(start) != time.Second {
			t.Errorf("await = %+v, %v after %v; want a place that holds after 1s", p, err, time.Since(start))
		}
	})
}

func TestAwaitEndsWhenTheHolderExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		first := claim("1")
		first.TTL = time.Second
		enter(t, d, first)
		second := claim("2")
		enter(t, d, second)
		start := time.Now()
		p, err := d.Await(t.Context(), second)
		if err != nil || !p.Holds || time.Since(start) != time.Second {
			t.Errorf("await = %+v, %v after %v; want a place that holds after 1s", p, err, time.Since(start))
		}
	})
}

func TestAwaitEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		enter(t, d, claim("1"))
		enter(t, d, claim("2"))
		go func() {
			synctest.Wait()
			d.Close()
		}()
		if _, err := d.Await(t.Context(), claim("2")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("await = %v, want ErrClosed", err)
		}
	})
}

func TestOpen(t *testing.T) {
	tests := []struct {
		first, second string
		shared        bool
	}{
		{"memory://", "memory://", false},
		{"memory://x", "memory://x", true},
		{"memory://x", "memory://y", false},
		{"memory://x", "memory://x?prefix=p/", false},
		{"memory://x?prefix=p/", "memory://x?prefix=p/", true},
	}
	for i, test := range tests {
		name := fmt.Sprintf("open-%d", i)
		var held []bool
		for _, url := range []string{test.first, test.second} {
			d, err := driver.Open(t.Context(), url)
			if err != nil {
				t.Fatalf("open %s: %v", url, err)
			}
			defer d.Close()
			c := claim(fmt.Sprint("id", len(held)))
			c.Name = name
			p, err := d.Enter(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, p.Holds)
		}
		if got := !held[1]; got != test.shared {
			t.Errorf("%s and %s share a queue: %v, want %v", test.first, test.second, got, test.shared)
		}
	}
	for _, url := range []string{"memory://u@x", "memory://x/y", "memory://x,y", "memory://x?ttl=3"} {
		if d, err := driver.Open(t.Context(), url); err == nil || !driver.NotApplied(err) {
			t.Errorf("open %s = %v, %v; want a definite error", url, d, err)
		}
	}
}

func TestWatchTellsWhenTheLockDelayBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		c := claim("1")
		c.TTL, c.Delay = time.Second, 2*time.Second
		enter(t, d, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var told []time.Duration
		start := time.Now()
		if err := d.Watch(ctx, "a", func() { told = append(told, time.Since(start)) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("watch = %v; want the context's error", err)
		}
		if want := []time.Duration{0, time.Second, 3 * time.Second}; !slices.Equal(told, want) {
			t.Errorf("told after %v; want %v", told, want)
		}
	})
}
