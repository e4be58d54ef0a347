package stile

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/follow"
)

// Watch yields the queue of a name now and after every change of its holders and waiters, until ctx ends or the loop is left.
// It may miss a change that is undone at once.
//
// Watch yields a failure once, with an empty queue. If the failure is temporary, such as a store that cannot be reached,
// Watch goes on, and next yields the queue that it finds after the failure. [ErrUnsupported], [ErrInvalid], [ErrClosed] and
// other permanent errors end it.
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Queue, error] {
	return watched(ctx, c, "watch", name, func(q Queue) Queue { return q }, changed)
}

// watched yields the state of a queue, now and at each change.
func watched[T any](ctx context.Context, c *Client, op, name string, says func(Queue) T, changed func(a, b T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last T
		seen := false
		c.follow(ctx, op, name, func(q Queue, err error) bool {
			is := says(q)
			if err == nil && seen && !changed(last, is) {
				return true
			}
			last, seen = is, err == nil
			return yield(is, err)
		})
	}
}

// changed reports whether two states of a queue differ in more than the passed time.
func changed(a, b Queue) bool {
	return a.Permits != b.Permits || !slices.EqualFunc(a.Claims, b.Claims, func(x, y Claim) bool {
		x.Since, x.Remaining, y.Since, y.Remaining = 0, 0, 0, 0
		return x == y
	})
}

// follow calls see with the queue of a name, now and whenever it may have changed, and once with each failure, until see
// returns false, ctx ends, or the failure is permanent.
func (c *Client) follow(ctx context.Context, op, name string, see func(Queue, error) bool) {
	for told := false; ; {
		err := c.eachState(ctx, op, name, func(q Queue) bool {
			told = false
			return see(q, nil)
		})
		if err == nil || ctx != nil && ctx.Err() != nil {
			return
		}
		// A temporary failure is reported once. A permanent one is reported in any case, since it ends the watch.
		if ends := !passes(err); (!told || ends) && !see(Queue{}, err) || ends {
			return
		}
		told = true
		if claims.Pause(ctx, follow.Every) != nil {
			return
		}
	}
}

// passes reports whether an error is temporary.
func passes(err error) bool {
	return driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeRefused && !errors.Is(err, ErrInvalid)
}

// eachState calls see with the queue of a name, now and whenever it may have changed, until it fails or see returns false;
// then the error is nil.
func (c *Client) eachState(ctx context.Context, op, name string, see func(Queue) bool) error {
	if err := c.checked(ctx, op, name); err != nil {
		return err
	}
	return wrapped(op, name, follow.Name(ctx, c.d, name, c.opts.Patience, c.silence(), func(ctx context.Context) (bool, error) {
		q, err := c.show(ctx, name)
		return err == nil && see(q), err
	}))
}
