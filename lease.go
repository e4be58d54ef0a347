package stile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Lease is one grant of a lock, until it is released or lost. Many goroutines may use it.
type Lease struct {
	share  *claims.Share   // nil for a joined lock
	joined *[]*Lease       // the parts of a joined lock; nil for any other
	parent context.Context // the context that it was acquired with: carries the outer leases
	leak   *claims.Guard
	ctx    atomic.Pointer[context.Context] // the result of Context; nil before the first call
}

// A State is the state of a lease. A lease goes from StateHeld to StateJeopardy and back, and ends in StateLost or
// StateReleased.
type State int

// The states of a lease.
const (
	StateHeld     State = iota // the store confirmed it
	StateJeopardy              // renewals fail, and its deadline has not come
	StateLost                  // others may hold the lock
	StateReleased
)

// String names the state in a word.
func (s State) String() string {
	names := [...]string{"held", "jeopardy", "lost", "released"}
	if s < 0 || int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}

// parts returns the leases of a joined lock's parts, or the lease itself.
func (l *Lease) parts() []*Lease {
	if l.share != nil {
		return []*Lease{l}
	}
	if l.joined == nil {
		return nil
	}
	return *l.joined
}

// sole returns why the lease's claim cannot be amended: there is none, or there are several, or it is over.
func (l *Lease) sole(ctx context.Context) error {
	switch {
	case l.none():
		return errNoLease
	case l.share == nil:
		return fmt.Errorf("%w: a joined lock is several leases; see Lease.Parts", ErrUnsupported)
	case ctx == nil:
		return errNoContext
	}
	return l.share.Check()
}

var errNoLease = fmt.Errorf("%w lease: acquire one with Lock.Lock or its siblings", ErrInvalid)

// none reports whether the lease was never acquired. It counts as lost.
func (l *Lease) none() bool { return l == nil || l.share == nil && l.joined == nil }

// Name returns the lock's name; for a joined lock, its first part's name.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.parts()[0].share.Name()
}

// Token returns the fencing token, a positive number, or 0 if the store has no fencing: driver.NoFencing in its traits. If two
// grants of a name exclude each other, the later one has the larger token, on this machine or any other. So the tokens of a
// mutex or a writer show which holder is stale. Readers and permits hold at the same time: a later grant may have the smaller
// token, and is not stale.
//
// The token never changes. Leases that share a hold, by re-entering or by Attach, share the token. A joined lock has no token
// of its own, and the result is 0: its [Lease.Parts] have tokens.
func (l *Lease) Token() int64 {
	if l.none() || l.share == nil {
		return 0
	}
	return l.share.Token()
}

// Ticket returns the number of the grant, which is never 0: it names the claim for [Client.Break], and a grant in a handle or a
// script. It is no fencing token where Token is 0, since a later grant may have the smaller ticket there. A joined lock has no
// ticket, and the result is 0.
func (l *Lease) Ticket() int64 {
	if l.none() || l.share == nil {
		return 0
	}
	return l.share.Ticket()
}

// Parts returns the leases that make up a joined lock, in the order in which they were taken, or the lease itself. The joined
// lease releases them together.
func (l *Lease) Parts() []*Lease { return slices.Clone(l.parts()) }

// Deadline returns the time until which the lease can be trusted without another renewal. It moves with every renewal, up to
// LockOptions.MaxHold. For a lease that is over, it is the present time.
func (l *Lease) Deadline() time.Time {
	left := time.Duration(-1)
	for _, p := range l.parts() {
		if other, _ := p.share.Left(); left < 0 || other < left {
			left = other
		}
	}
	return time.Now().Add(max(left, 0))
}

// State returns the state of the lease by the clock; for a joined lock, the worst state of its parts.
func (l *Lease) State() State {
	worst := StateHeld
	if l.none() {
		return StateLost
	}
	for _, p := range l.parts() {
		err := p.check()
		switch _, jeopardy := p.share.Left(); {
		case errors.Is(err, ErrLost):
			worst = max(worst, StateLost)
		case err != nil:
			worst = max(worst, StateReleased)
		case jeopardy:
			worst = max(worst, StateJeopardy)
		}
	}
	return worst
}

// Check returns nil while the lease can be trusted. It reads the clock and does no I/O: call it on the line before a write.
// Otherwise the error is [ErrLost] or [ErrReleased]. A context says the same, but late: nothing runs between a pause and the
// next line.
func (l *Lease) Check() error {
	switch {
	case l.none():
		return wrapped("check", "", errNoLease)
	case l.share != nil:
		return wrapped("check", l.share.Name(), l.share.Check())
	}
	for _, p := range l.parts() {
		if err := p.share.Check(); err != nil {
			return wrapped("check", p.Name(), err)
		}
	}
	return nil
}

func (l *Lease) check() error { return explain(l.share.Check()) }

// Context returns a context that ends when the lease is lost or released, with the reason as its cause. It has the values of
// the context that acquired the lease, but does not end with that context. The context of [Lock.Do] ends with both. Work for
// a request should end with both: the example joins them.
func (l *Lease) Context() context.Context {
	if l.ctx.Load() == nil {
		ctx, _ := l.attach(context.WithoutCancel(l.parent))
		l.ctx.CompareAndSwap(nil, &ctx) // if another goroutine was faster, this one still ends with the lease
	}
	return *l.ctx.Load()
}

// Unlock releases the lease, and passes the lock on. The request has a context of its own, for Options.Patience at most, so
// it also works after the end of the context that acquired the lease.
//
// The error is [ErrLost] if the lease was lost before the call: others may have been at work at the same time. It is
// [ErrReleased] if the lease was released before, and [ErrUnknown] if the store did not answer: the lock may then stay taken
// until the lease runs out. In every case the lease is over.
func (l *Lease) Unlock() error { return l.UnlockAfter(0) }

// UnlockAfter releases the lease, but keeps the lock taken for a time after the call, at most 24 h, for work that must not
// run again soon. It does not wait. The lease is over at once. If several leases share a hold, by re-entering, the longest
// time counts, and it begins with the UnlockAfter that asked for it. The store learns of it by the last release. If
// that one fails, its error says so, and the lock may be free once the lease is over.
func (l *Lease) UnlockAfter(keep time.Duration) error {
	if l.none() {
		return wrapped("unlock", "", errNoLease)
	}
	l.leak.Stop()
	keep = min(max(keep, 0), driver.MaxTTL)
	if l.share != nil {
		return wrapped("unlock", l.share.Name(), l.share.Release(keep))
	}
	parts := l.parts()
	shares := make([]*claims.Share, len(parts))
	for i, p := range parts {
		shares[i] = p.share
	}
	failed, err := claims.Release(shares, keep)
	return wrapped("unlock", parts[failed].Name(), err)
}

type leaseKey struct{}

// attach returns a context that carries the lease and ends with it.
func (l *Lease) attach(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range l.parts() {
		p.share.WhenOver(func(err error) { cancel(explain(err)) })
	}
	// The value is outside: the hold keeps only cancel, so a forgotten lease can still be noticed.
	return context.WithValue(ctx, leaseKey{}, l), cancel
}

// FromContext returns the lease that a context carries, the innermost if there are several, or nil. The contexts of leases
// and of [Lock.Do] carry a lease.
func FromContext(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// Token returns the fencing token of the lease that a context carries, or 0 if it carries none.
func Token(ctx context.Context) int64 {
	return FromContext(ctx).Token()
}

// carried returns the shares of a client's holds in the lease and its context, and the share of a name, or nil.
func (l *Lease) carried(c *Client, name string) (same *claims.Share, all []*claims.Share) {
	for ; l != nil; l = FromContext(l.parent) {
		for _, p := range l.parts() {
			if p.share.In(c.keeper) && p.check() == nil {
				if all = append(all, p.share); p.Name() == name {
					return p.share, all
				}
			}
		}
	}
	return nil, all
}

// guardLeak informs observers if the lease is forgotten without a release. It does not release the lease: the goroutine that
// forgot it may still be working, and could not be stopped. For a joined lock, one part is enough to find the line.
func (l *Lease) guardLeak(skip int) {
	if share := l.parts()[0].share; share.Observed() {
		l.leak = claims.GuardLeak(l, share, skip+1, protocol.Kind(EventLeaked))
	}
}
