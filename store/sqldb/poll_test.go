package sqldb

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// failing is a store whose first poll shows a kept claim before the waiter, and whose later polls fail.
type failing struct {
	Store
	looks int
}

func (f *failing) Poll(context.Context, *PollRequest) (*PollResult, error) {
	if f.looks++; f.looks > 1 {
		return nil, driver.Unreachable(errors.New("it is down"))
	}
	return &PollResult{States: []State{{Ends: time.Hour.Microseconds(), Kept: time.Second.Microseconds()}}}, nil
}

func (*failing) Pause(time.Duration, int) time.Duration { return time.Second }

func (*failing) Close() error { return nil }

// A store that is down is polled at its Pause, even when a claim should have run out.
func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{}
		d := Over(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := d.Await(ctx, &driver.Claim{Name: "name", ID: "id", Ticket: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await = %v; want that it waits", err)
		}
		d.Close()
		if f.looks < 30 || f.looks > 63 {
			t.Errorf("it was asked %d times in a minute; want once a second", f.looks)
		}
	})
}
