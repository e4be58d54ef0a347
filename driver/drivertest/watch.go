package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

// A watched is a running watch.
type watched struct {
	r     *run
	calls chan struct{} // has room for one
	ended chan error
}

// watch watches the run's name by client b. It is false if the driver cannot.
func (r *run) watch(ctx context.Context, d driver.Driver) (*watched, bool) {
	watcher, ok := d.(driver.Watcher)
	if !ok {
		return nil, false
	}
	w := &watched{r: r, calls: make(chan struct{}, 1), ended: make(chan error, 1)}
	go func() {
		w.ended <- watcher.Watch(ctx, r.name, func() {
			select {
			case w.calls <- struct{}{}:
			default: // an earlier call that is not received yet stands for this one
			}
		})
	}()
	return w, true
}

// told waits for a call of changed.
func (w *watched) told(what string, bound time.Duration) {
	w.r.Helper()
	select {
	case <-w.calls:
	case err := <-w.ended:
		w.r.Fatalf("watch ended before it told of %s: %v", what, err)
	case <-awake.For(bound):
		w.r.Fatalf("watch did not tell of %s within %v", what, bound)
	}
}

// waitEnd waits for the end of the watch, which must come with an error.
func (w *watched) waitEnd(want error) {
	w.r.Helper()
	select {
	case err := <-w.ended:
		if !errors.Is(err, want) {
			w.r.Errorf("watch = %v; want %v", err, want)
		}
	case <-awake.For(w.r.store.Slack):
		w.r.Errorf("watch goes on after %v; want %v", w.r.store.Slack, want)
	}
}

// watch makes each change after the call of changed for the previous one. A call for it must follow. An extra call makes the
// case more lenient, never wrong.
func watch(r *run) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	w, ok := r.watch(ctx, r.b)
	if !ok {
		return
	}
	soon := r.store.Wake + r.store.Slack
	over := r.store.Wake + r.runsOut()
	w.told("its beginning", soon)
	holder, waiter, dead, kept := r.claim(), r.claim(), r.brief(), r.claim()
	r.holds(r.a, holder)
	w.told("enter", soon)
	if r.traits.Ordered {
		r.waits(r.a, waiter)
		w.told("a claim that waits", soon)
		r.leave(r.a, waiter)
		w.told("its leave", soon)
	}
	r.leave(r.a, holder)
	w.told("leave", soon)
	r.holds(r.a, dead)
	w.told("another enter", soon)
	w.told("expiry", over)
	r.until(over, "a claim holds after expiry", func() bool { return r.enter(r.a, kept).Holds })
	w.told("enter after expiry", soon)
	r.leaveKept(r.a, kept, r.lease())
	w.told("leave with keep", soon)
	w.told("the end of keep", over)
	cancel()
	w.waitEnd(context.Canceled)
}

func watchContext(r *run) {
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	if w, ok := r.watch(ctx, r.b); ok {
		<-ctx.Done()
		w.waitEnd(context.DeadlineExceeded)
	}
}

func watchClose(r *run) {
	d := r.store.Open(r)
	w, ok := r.watch(r.ctx, d)
	if ok {
		w.told("its beginning", r.store.Wake+r.store.Slack)
	}
	if err := d.Close(); err != nil {
		r.Errorf("close = %v; want nil", err)
	}
	if ok {
		w.waitEnd(driver.ErrClosed)
	}
}
