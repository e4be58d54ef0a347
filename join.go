package stile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Join returns a lock that is several locks of one client at once: all of them or none. They are taken in the order of
// their names, whatever order they are given in, so two that join the same locks cannot wait for each other. A name can
// be in it only once.
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
	j.c = j.parts[0].c
	for i, p := range j.parts {
		switch {
		case j.err != nil:
		case p.c != j.c:
			j.err = fmt.Errorf("%w join: the locks must be of one client", ErrInvalid)
		case i > 0 && p.want.Name == j.parts[i-1].want.Name:
			j.err = fmt.Errorf("%w join: %q is in it twice, and would wait for itself", ErrInvalid, p.want.Name)
		}
	}
	return j
}

// acquireAll takes the parts of a joined lock, or none.
func (l *Lock) acquireAll(ctx context.Context, op string, try bool) (*Lease, error) {
	if l.err != nil {
		return nil, &Error{Op: op, Name: l.Name(), Err: l.err}
	}
	var parts []*Lease
	lease := &Lease{parent: ctx, joined: &parts}
	for _, p := range l.parts {
		part, err := p.acquire(ctx, op, try)
		if err == nil {
			parts = append(parts, part)
			err = lease.Check() // what was taken first may have been lost while we waited for the rest
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
