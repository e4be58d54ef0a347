package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// tardy is a store that starts after some time.
type tardy struct {
	after time.Duration
	err   error
	tries int

	silent bool // a try lasts until its context ends
}

type tardyKey struct{}

func init() {
	driver.Register("tardy", func(ctx context.Context, a *driver.Address) (driver.Driver, error) {
		l := ctx.Value(tardyKey{}).(*tardy)
		l.tries++
		if l.silent {
			<-ctx.Done()
			return nil, driver.Ended(ctx, false)
		}
		if l.after -= time.Second; l.after > 0 { // a try takes a second
			timer := time.NewTimer(time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil, l.err
			case <-ctx.Done():
				return nil, driver.Ended(ctx, false)
			}
		}
		return memory.New(), a.Done()
	})
}

// Open waits for an unreachable store, like every call: until ctx ends, or for Patience.
func TestOpenWaits(t *testing.T) {
	electing, full := driver.Unreachable(errors.New("no leader")), errors.New("not allowed")
	for _, test := range []struct {
		name   string
		store  tardy
		within time.Duration // the caller's timeout
		want   []error       // in the error; none means that it opens
		took   time.Duration // at most
	}{
		{"it comes in time", tardy{after: 3 * time.Second, err: electing}, time.Minute, nil, 4 * time.Second},
		{"it does not come in time", tardy{after: time.Hour, err: electing}, time.Minute, []error{stile.ErrUnreachable, electing}, 5 * time.Second},
		{"its caller gives up", tardy{after: time.Hour, err: electing}, 2 * time.Second, []error{context.DeadlineExceeded, electing}, 2 * time.Second},
		{"it refuses", tardy{after: time.Hour, err: full}, time.Minute, []error{full}, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), tardyKey{}, &test.store), test.within)
				defer cancel()
				start := time.Now()
				c, err := stile.Open(ctx, "tardy://", nil)
				if took := time.Since(start); took > test.took {
					t.Errorf("opening took %v; want at most %v", took, test.took)
				}
				for _, want := range test.want {
					if !errors.Is(err, want) {
						t.Errorf("open = %v; want %v", err, want)
					}
				}
				if (err == nil) != (test.want == nil) {
					t.Errorf("open = %v after %d tries", err, test.store.tries)
				}
				if err == nil {
					c.Close()
				}
			})
		})
	}
}

// The error of Open names the silence of the store, not a context that ended.
func TestOpenOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := stile.Open(context.WithValue(t.Context(), tardyKey{}, &tardy{silent: true}), "tardy://", nil)
		const want = "tried for 5s: the store does not answer"
		if !errors.Is(err, stile.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(fmt.Sprint(err), want) {
			t.Errorf("open = %v; want %s", err, want)
		}
	})
}

// New refuses a store that lacks a required trait, and the error names the option to set.
func TestRequire(t *testing.T) {
	for _, require := range [][]driver.Trait{nil, {driver.TraitFencing, driver.TraitOrder}} {
		c, err := stile.New(memory.New(), &stile.Options{Require: require})
		if err != nil {
			t.Errorf("requiring %q: %v", require, err)
			continue
		}
		c.Close()
	}
	want := "stile: open: the store cannot do this: memory lacks restart, failover, which is required"
	if _, err := stile.New(memory.New(), &stile.Options{Require: []driver.Trait{driver.TraitFailover, driver.TraitRestart}}); !errors.Is(err, stile.ErrUnsupported) || err.Error() != want {
		t.Errorf("requiring what memory lacks: %v; want %s", err, want)
	}
	if _, err := stile.New(memory.New(), &stile.Options{Require: []driver.Trait{"fenced"}}); err == nil || !strings.Contains(err.Error(), `there is no trait "fenced"`) {
		t.Errorf("requiring what nobody knows: %v", err)
	}
}
