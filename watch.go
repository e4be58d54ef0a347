package stile

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// Watch yields the queue of a name as it is now and after every change of who stands in it or holds, until ctx ends or
// the loop is left. A change that is undone at once may be missed.
//
// A failure is yielded once, with an empty queue; if it may pass, such as while the store cannot be reached, Watch goes
// on, and the next queue that it yields is the one that was found after it. [ErrUnsupported], [ErrInvalid], [ErrClosed]
// and other errors that will not pass end it.
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Queue, error] {
	return func(yield func(Queue, error) bool) {
		var (
			last Queue
			seen bool
		)
		c.follow(ctx, "watch", name, func(q Queue, err error) bool {
			if err == nil && seen && !changed(last, q) {
				return true
			}
			last, seen = q, err == nil
			return yield(q, err)
		})
	}
}

// changed reports whether two looks at a queue differ in more than the time that has passed.
func changed(a, b Queue) bool {
	if a.Permits != b.Permits || len(a.Claims) != len(b.Claims) {
		return true
	}
	for i := range a.Claims {
		x, y := a.Claims[i], b.Claims[i]
		x.Since, x.Remaining, y.Since, y.Remaining = 0, 0, 0, 0
		if !reflect.DeepEqual(x, y) {
			return true
		}
	}
	return false
}

// pollEvery is how often a store is asked that cannot tell of changes, or that could not be asked a moment ago.
const pollEvery = 250 * time.Millisecond

// follow calls see with the queue of a name, now and whenever it may have changed, and with what went wrong, once each
// time, until see returns false, ctx ends, or the error is one that will not pass.
func (c *Client) follow(ctx context.Context, op, name string, see func(Queue, error) bool) {
	for told := false; ; {
		err := c.look(ctx, op, name, func(q Queue) bool {
			told = false
			return see(q, nil)
		})
		if err == nil || ctx.Err() != nil || !told && !see(Queue{}, err) || !passes(err) {
			return
		}
		told = true
		if claims.Pause(ctx, pollEvery) != nil {
			return
		}
	}
}

// passes reports whether the same question may be answered later.
func passes(err error) bool {
	return driver.IsUnreachable(err) || !driver.IsRejected(err) && !errors.Is(err, ErrInvalid)
}

// look calls see with the queue of a name, now and whenever it may have changed, until it fails or see returns false;
// then the error is nil.
func (c *Client) look(ctx context.Context, op, name string, see func(Queue) bool) error {
	if err := checked(op, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	told, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- c.watch(ctx, name, func() {
			select {
			case told <- struct{}{}:
			default: // the look that is due will see this change too
			}
		})
	}()
	defer func() {
		cancel()
		for range ended { //nolint:revive // waits for the goroutine
		}
	}()
	for {
		select {
		case <-told:
		case err := <-ended:
			return wrapped(op, name, err)
		}
		q, err := c.show(ctx, op, name)
		if err != nil {
			return err
		}
		if !see(q) {
			return nil
		}
	}
}

// watch is [driver.Watcher.Watch], or asks again and again a store that cannot.
func (c *Client) watch(ctx context.Context, name string, changed func()) error {
	if w, ok := c.d.(driver.Watcher); ok {
		return w.Watch(ctx, name, changed)
	}
	for {
		changed()
		if err := claims.Pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}
