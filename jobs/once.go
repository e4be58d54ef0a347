package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile"
)

// A Call is work that runs once for its key, however many processes call it. All of them get its answer. Make it with
// [Once], which costs nothing. Many goroutines may use it.
//
//	none ──► runs ──► answered ──► none, when the answer is no longer kept
//	 ▲         │
//	 └─────────┘ the run fails or dies
type Call struct {
	client *stile.Client
	key    string
	keep   time.Duration
	lock   *stile.Lock
}

// An Answer is the result of a run.
type Answer struct {
	Text   string
	Ticket int64 // Lease.Ticket of the run; 0 if there is no answer
	Here   bool  // the run was in this call
}

// ErrNotKept says that the work was done by this call, but the store may not have its answer: another call may run the work
// again.
var ErrNotKept = errors.New("the work was done, and its answer may not be kept")

// MaxAnswer is the largest length of an answer's text in JSON, in bytes.
const MaxAnswer = 2048

// Once returns the call of a key, such as "orders/42/paid". The key is the name of a lock, which a run holds. The answer is
// the value of a claim on the name KEY/done, which stays for the time keep: 24 hours at most, and on Redlock a minute. So no
// key may end in "/done".
// [Call.Do] reports invalid arguments.
//
// A store that loses claims loses answers, and a later call then runs the work again; docs/howto/once.md says for each store
// when this can happen. So if money is at stake, check the token of the work at the resource.
func Once(client *stile.Client, key string, keep time.Duration) *Call {
	return &Call{client: client, key: key, keep: keep, lock: client.Mutex(key)}
}

// Do returns the answer of the key. If there is none it runs the work, under the lock of the key and with a context that
// carries the lease and ends with it. If the work runs elsewhere, Do waits until ctx ends; if that run dies, this call runs
// the work again, with a higher token.
//
// Do returns an error of the work without keeping it: the next call runs the work again. The error is [ErrNotKept], beside
// the answer, if the answer could not be kept, and [stile.ErrLost] if another run may have begun before this one was over.
func (c *Call) Do(ctx context.Context, work func(context.Context) (string, error)) (Answer, error) {
	return c.do(ctx, c.lock.Lock, work)
}

// Try does the same as Do, but does not wait: the error is [stile.ErrHeld] if the work runs elsewhere.
func (c *Call) Try(ctx context.Context, work func(context.Context) (string, error)) (Answer, error) {
	return c.do(ctx, c.lock.TryLock, work)
}

// Answer returns the answer of the key, if there is one, and runs nothing.
func (c *Call) Answer(ctx context.Context) (Answer, error) {
	a, err := c.recall(ctx)
	return a, c.wrapped(err)
}

func (c *Call) do(
	ctx context.Context, take func(context.Context) (*stile.Lease, error), work func(context.Context) (string, error),
) (Answer, error) {
	a, err := c.recall(ctx)
	if err == nil {
		err = c.check(work)
	}
	if err != nil || a.Ticket != 0 {
		return a, c.wrapped(err)
	}
	lease, err := take(ctx)
	if err != nil {
		return Answer{}, c.wrapped(err)
	}
	defer lease.Unlock() //nolint:errcheck // only for a panic of the work: the second call is harmless
	if a, err = c.recall(ctx); err == nil && a.Ticket == 0 {
		a, err = c.run(ctx, lease, work)
	}
	over := lease.Unlock()
	if a.Here || a.Ticket == 0 { // an answer from elsewhere needs no lock
		if errors.Is(over, stile.ErrLost) && !errors.Is(err, stile.ErrLost) {
			err = errors.Join(err, over)
		}
	}
	return a, c.wrapped(err)
}

// check returns an error if the call can never run.
func (c *Call) check(work func(context.Context) (string, error)) error {
	if work == nil {
		return fmt.Errorf("%w function: it is nil", stile.ErrInvalid)
	}
	if of, ok := strings.CutSuffix(c.key, done); ok {
		return fmt.Errorf("%w key: it cannot end in %s, since the answer of %q is kept there", stile.ErrInvalid, done, of)
	}
	t := c.client.Traits()
	if most := longest(t); c.keep <= 0 || c.keep > most {
		return fmt.Errorf("%w time to keep an answer %v: in %s it must be more than 0, and %v at most", stile.ErrInvalid, c.keep, t.Store, most)
	}
	if t.OwnClient || t.ShortRecord {
		return fmt.Errorf("%w: %s keeps no answer that another process can read", stile.ErrUnsupported, t.Store)
	}
	return nil
}

// run runs the work under a lease. A run that has lost its lease keeps no answer, since another run may be in progress.
func (c *Call) run(ctx context.Context, lease *stile.Lease, work func(context.Context) (string, error)) (Answer, error) {
	if err := ended(ctx, lease); err != nil {
		return Answer{}, err
	}
	held, cancel := underBoth(ctx, lease)
	defer cancel() // also if the work panics: ctx may live on, and would keep it in memory
	text, err := work(held)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Text: text, Ticket: lease.Ticket(), Here: true}
	if err := lease.Check(); err != nil {
		if first := c.left(context.WithoutCancel(ctx)); first.Ticket != 0 {
			a = first // the first answer counts for all calls
		}
		return a, err
	}
	return c.remember(context.WithoutCancel(ctx), a) // the work is done, even if the caller has given up
}

// ended returns the reason why work must not begin: the lease may have ended while the store was asked. Work that begins in
// spite of this might check its context late, or never.
func ended(ctx context.Context, lease *stile.Lease) error {
	if err := lease.Check(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// underBoth returns a context that ends with the lease or with ctx, whichever is first.
func underBoth(ctx context.Context, lease *stile.Lease) (context.Context, context.CancelFunc) {
	held, cancel := context.WithCancelCause(lease.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return held, func() {
		stop()
		cancel(nil)
	}
}

func (c *Call) doneName() string { return c.key + done }

// done is the suffix of the name that has the answer of a key.
const done = "/done"

// recall reads the answer.
func (c *Call) recall(ctx context.Context) (Answer, error) {
	q, err := c.client.Show(ctx, c.doneName())
	if err != nil {
		return Answer{}, err
	}
	for _, claim := range q.Claims {
		if !claim.Holds {
			continue
		}
		number, text, _ := strings.Cut(claim.Holder.Value, " ")
		token, err := strconv.ParseInt(number, 10, 64)
		if err != nil || token <= 0 {
			return Answer{}, fmt.Errorf("%w: %q holds %q, which is no answer: it is used for something else",
				stile.ErrForeign, c.doneName(), claim.Holder.Value)
		}
		return Answer{Text: text, Ticket: token}, nil
	}
	return Answer{}, nil
}

// left returns another run's answer, if it can be read. Otherwise the answer is zero.
func (c *Call) left(ctx context.Context) Answer {
	a, err := c.recall(ctx)
	if err != nil {
		return Answer{} // the caller reports the error of its own lock
	}
	return a
}

// remember keeps the answer. The first kept answer counts for all calls: a run that has lost its lock without knowing may
// have been faster.
func (c *Call) remember(ctx context.Context, a Answer) (Answer, error) {
	if quoted, err := json.Marshal(a.Text); err != nil || len(quoted) > MaxAnswer+2 || !utf8.ValidString(a.Text) {
		return a, fmt.Errorf("%w: its %d bytes are %d in JSON; want UTF-8 of %d at most", ErrNotKept, len(a.Text), len(quoted)-2, MaxAnswer)
	}
	value := strconv.FormatInt(a.Ticket, 10) + " " + a.Text
	lease, err := keeping(c.client, c.doneName(), func() string { return value }).TryLock(ctx)
	if errors.Is(err, stile.ErrHeld) {
		if first := c.left(ctx); first.Ticket != 0 {
			return first, fmt.Errorf("%w: the run with token %d has left its answer meanwhile", stile.ErrLost, first.Ticket)
		}
	}
	if err == nil {
		err = lease.UnlockAfter(c.keep)
	}
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return a, nil
}

func (c *Call) wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("jobs: once %q: %w", c.key, err)
}
