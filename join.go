package stile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stilelock/stile/internal/claims"
)

// Join returns a lock that takes several locks at once: all of them or none. It takes them in the order of the stores' ids,
// and within a store in the order of the names, whatever the order of the arguments. So two programs that join the same locks
// cannot wait for each other. Each name can be in the lock only once, and each store only through one client.
//
// If a store fails while the lock is being taken, Join releases the parts in other stores. If a store fails later, its lease
// is lost in time, and the joined lease with it. The other parts are held until Unlock. See docs/howto/join.md.
func Join(locks ...*Lock) *Lock {
	j := &Lock{}
	for _, l := range locks {
		if l == nil {
			l = &Lock{}
		}
		j.err = cmp.Or(j.err, l.err, l.wrong)
		if len(l.parts) > 0 {
			j.parts = append(j.parts, l.parts...)
		} else {
			j.parts = append(j.parts, l)
		}
	}
	if len(j.parts) == 0 {
		return &Lock{err: fmt.Errorf("%w join: it needs at least one lock", ErrInvalid)}
	}
	slices.SortStableFunc(j.parts, func(a, b *Lock) int { return cmp.Compare(a.want.Name, b.want.Name) })
	for i, p := range j.parts {
		if j.err == nil && slices.ContainsFunc(j.parts[:i], func(q *Lock) bool { return p.c == q.c && p.want.Name == q.want.Name }) {
			j.err = fmt.Errorf("%w join: %q is in it twice, and would wait for itself", ErrInvalid, p.want.Name)
		}
	}
	return j
}

// acquireAll takes all parts of a joined lock, or none.
func (l *Lock) acquireAll(ctx context.Context, op string, try bool) (*Lease, error) {
	err := l.err
	for _, p := range l.parts {
		err = cmp.Or(err, p.check(ctx))
	}
	var order []*Lock
	if err == nil {
		order, err = claims.InOrder(ctx, l.parts, func(p *Lock) *claims.Keeper { return p.c.keeper })
	}
	if err != nil {
		return nil, wrapped(op, l.Name(), err)
	}
	var parts []*Lease
	lease := &Lease{parent: ctx, joined: &parts}
	for _, p := range order {
		part, err := p.acquire(ctx, op, try, lease)
		if err == nil {
			parts = append(parts, part)
			err = lease.Check() // the first parts may have been lost during the wait for the others
		}
		if err != nil {
			if len(parts) > 0 {
				if e := lease.Unlock(); e != nil && !errors.Is(err, ErrLost) {
					err = errors.Join(err, e)
				}
			}
			return nil, err
		}
	}
	return lease, nil
}
