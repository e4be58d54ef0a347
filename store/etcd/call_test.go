package etcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A toldContext has an AfterFunc, as the context of each request of package stile has. It counts the calls.
type toldContext struct {
	context.Context
	registered int
}

// Value hides the context of the standard library inside.
func (c *toldContext) Value(any) any { return nil }

func (c *toldContext) AfterFunc(f func()) func() bool {
	c.registered++
	return context.AfterFunc(c.Context, f)
}

// A request ends with its caller's context. It registers with the context's AfterFunc, and starts no goroutine to wait.
func TestRequestsEndWithoutGoroutine(t *testing.T) {
	d := newDriver("")
	t.Cleanup(func() { d.Close() })
	parent, cancel := context.WithCancel(t.Context())
	caller := &toldContext{Context: parent}
	ctx, done, err := d.wire.begin(caller)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if caller.registered != 1 {
		t.Errorf("%d functions wait for the end of the caller's context, want 1", caller.registered)
	}
	cancel()
	<-ctx.Done()
}

// A request ends with its caller's deadline, or after the driver's patience. It sends neither to the member.
func TestRequestsTellNoDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ caller, want time.Duration }{{time.Second, time.Second}, {time.Hour, patience}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver("")
			defer d.Close()
			caller, cancel := context.WithTimeout(t.Context(), test.caller)
			defer cancel()
			begun := time.Now()
			ctx, done, err := d.wire.begin(caller)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if at, told := ctx.Deadline(); told {
				t.Errorf("the member hears of the deadline %v", at)
			}
			if <-ctx.Done(); time.Since(begun) != test.want {
				t.Errorf("a request whose caller waits for %v ends after %v; want %v",
					test.caller, time.Since(begun), test.want)
			}
		})
	}
}
