package etcd

import (
	"context"
	"testing"
)

// A toldContext has package context register what is to be told of its end, as the context of each request does.
type toldContext struct {
	context.Context
	registered int
}

// Value hides that the standard library has made it.
func (c *toldContext) Value(any) any { return nil }

func (c *toldContext) AfterFunc(f func()) func() bool {
	c.registered++
	return context.AfterFunc(c.Context, f)
}

// A request starts no goroutine that waits for the end of its caller's context, which can tell of it, and ends with it.
func TestRequestsEndWithoutGoroutine(t *testing.T) {
	d := newDriver("")
	t.Cleanup(func() { d.Close() })
	parent, cancel := context.WithCancel(t.Context())
	caller := &toldContext{Context: parent}
	ctx, done, err := d.begin(caller)
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
