package stile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// A Lease is the holding of a lock, from its grant until it is released or lost. It may be used by many goroutines.
type Lease struct {
	c      *Client
	hold   *claims.Hold    // nil for a joined lock
	parts  []*Lease        // of a joined lock, or the lease itself
	self   [1]*Lease       // room for that
	parent context.Context // what it was acquired with: carries the leases further out
	done   atomic.Bool     // this handle was released
	leak   runtime.Cleanup

	once sync.Once // makes ctx
	ctx  context.Context
}

// A State is what a lease is in. A lease goes from HeldState to JeopardyState and back, and ends in LostState or
// ReleasedState.
type State int

// The states of a lease.
const (
	HeldState     State = iota // the store confirmed it
	JeopardyState              // renewals fail, and its deadline has not come
	LostState                  // others may hold the lock
	ReleasedState
)

// String names the state in a word.
func (s State) String() string {
	return [...]string{"held", "jeopardy", "lost", "released"}[s]
}

func newLease(ctx context.Context, c *Client, h *claims.Hold) *Lease {
	l := &Lease{c: c, hold: h, parent: ctx}
	l.self[0] = l
	l.parts = l.self[:]
	return l
}

// Name returns the lock's name; for a joined lock, that of its first part.
func (l *Lease) Name() string { return l.parts[0].hold.Terms().Name }

// Token returns the fencing token: a positive number larger than that of every earlier grant of the name, on this
// machine or any other. It never changes, and leases that share a hold, by re-entering or by Attach, share it. Permits
// and readers hold at the same time, so that their tokens tell in which order they were granted, but not who is stale. A
// joined lock has no token of its own, and the result is 0: its [Lease.Parts] have.
func (l *Lease) Token() int64 {
	if l.hold == nil {
		return 0
	}
	return l.hold.Token()
}

// Parts returns the leases that make up a joined lock, in the order of their names, or the lease itself. They are
// released together, by the lease that they are part of.
func (l *Lease) Parts() []*Lease { return slices.Clone(l.parts) }

// Deadline returns until when the lease can be trusted if it is not renewed any more. It moves with every renewal, up to
// LockOptions.MaxHold. Of a lease that is over it is now.
func (l *Lease) Deadline() time.Time {
	left, _ := l.parts[0].hold.Left()
	for _, p := range l.parts[1:] {
		other, _ := p.hold.Left()
		left = min(left, other)
	}
	return time.Now().Add(left)
}

// State returns the state that the lease is in by the clock; for a joined lock, the worst of its parts.
func (l *Lease) State() State {
	worst := HeldState
	for _, p := range l.parts {
		err := p.check()
		switch _, jeopardy := p.hold.Left(); {
		case errors.Is(err, ErrLost):
			worst = max(worst, LostState)
		case err != nil:
			worst = max(worst, ReleasedState)
		case jeopardy:
			worst = max(worst, JeopardyState)
		}
	}
	return worst
}

// Check returns nil while the lease can be trusted, by a look at the clock and without I/O: use it on the line before a
// write. Otherwise the error is [ErrLost] or [ErrReleased]. A context tells the same, but late: nothing runs between a
// pause and the next line.
func (l *Lease) Check() error {
	for _, p := range l.parts {
		if err := p.check(); err != nil {
			return &Error{Op: "check", Name: p.Name(), Err: err}
		}
	}
	return nil
}

func (l *Lease) check() error {
	err := l.hold.Check()
	if err != nil {
		return explain(err)
	}
	if l.done.Load() {
		return ErrReleased
	}
	return nil
}

// Context returns a context that ends when the lease is lost or released, with the reason as its cause. It has the values
// of the context that the lease was acquired with, but does not end with that one, as the one that [Lock.Do] passes does.
func (l *Lease) Context() context.Context {
	l.once.Do(func() { l.ctx, _ = l.attach(context.WithoutCancel(l.parent)) })
	return l.ctx
}

// Unlock releases the lease, and passes the lock on. The store is told on a context of its own, for Options.Patience at
// most, so it also works when the one that the lease was acquired with has ended.
//
// The error is [ErrLost] if the lease was lost before, so that others may have been at work at the same time;
// [ErrReleased] if it was released before; [ErrUnknown] if the store did not answer, so that the lock may stay taken
// until the lease runs out. In every case the lease is over.
func (l *Lease) Unlock() error { return l.UnlockAfter(0) }

// UnlockAfter is Unlock that keeps the lock taken for so long after the call, at most 24 h, for work that must not run
// again soon. It does not wait. The lease is over at once.
func (l *Lease) UnlockAfter(keep time.Duration) error {
	keep = min(keep, driver.MaxTTL)
	var first error
	for _, p := range slices.Backward(l.parts) {
		err := ErrReleased
		if !p.done.Swap(true) {
			err = p.hold.Release(keep)
		}
		if err != nil {
			first = wrapped("unlock", p.Name(), err)
		}
	}
	l.leak.Stop()
	return first
}

type leaseKey struct{}

// attach makes a context that carries the lease and ends with it.
func (l *Lease) attach(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range l.parts {
		p.hold.WhenOver(func(err error) { cancel(explain(err)) })
	}
	// The value stands outside: the hold keeps only cancel, so a lease that is forgotten can still be found out.
	return context.WithValue(ctx, leaseKey{}, l), cancel
}

// FromContext returns the lease that a context carries, the innermost if there are several, or nil. Contexts of leases
// and those that [Lock.Do] passes carry one.
func FromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// Token returns the fencing token of the lease that a context carries, or 0 if it carries none.
func Token(ctx context.Context) int64 {
	if l := FromContext(ctx); l != nil {
		return l.Token()
	}
	return 0
}

// carriedBy returns the hold on a name that a context carries, or nil.
func carriedBy(ctx context.Context, c *Client, name string) *claims.Hold {
	for l := FromContext(ctx); l != nil; l = FromContext(l.parent) {
		for _, p := range l.parts {
			if p.c == c && p.Name() == name && p.check() == nil {
				return p.hold
			}
		}
	}
	return nil
}

// A forgotten is what is left of a lease that nobody can release any more.
type forgotten struct {
	hold  *claims.Hold
	taken uintptr
	tell  Observer
}

// guardLeak has observers told if the lease is forgotten without being released. It is not released then: whoever
// forgot it may still be at work, and could not be told.
func (l *Lease) guardLeak(skip int) {
	tell := l.parts[0].c.opts.Observer
	if tell == nil {
		return
	}
	var pc [1]uintptr
	runtime.Callers(skip+1, pc[:])
	// Of a joined lock, one part is enough to find the line by.
	l.leak = runtime.AddCleanup(l, forgotten.report, forgotten{l.parts[0].hold, pc[0], tell})
}

func (f forgotten) report() {
	if f.hold.Check() != nil {
		return
	}
	frame, _ := runtime.CallersFrames([]uintptr{f.taken}).Next()
	f.tell(Event{
		Kind: Leaked, Name: f.hold.Terms().Name, Token: f.hold.Token(),
		Taken: fmt.Sprintf("%s:%d", frame.File, frame.Line),
	})
}
