package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stilelock/stile/driver"
)

// A joined is a store in which a joined lock has parts, with the id that it gives for itself.
type joined struct {
	k   *Keeper
	id  string // "" if the store keeps none
	why error  // it keeps none, if the driver says
	err error
}

// InOrder returns locks in the order in which everybody takes them: by the ids of their stores, then by their names. If all
// are of one keeper, that is the order that they are in, and nobody is asked. Otherwise the stores are asked for their ids,
// each time, since a store that lost everything has another id.
//
// Nobody takes them in another order, so nobody waits for each other. The ids are an order of the stores that have one. A
// store without an id comes after those, and two of them are refused.
func InOrder[P any](ctx context.Context, parts []P, at func(P) *Keeper) ([]P, error) {
	var stores []*joined
	of := func(p P) *joined {
		k := at(p)
		return stores[slices.IndexFunc(stores, func(s *joined) bool { return s.k == k })]
	}
	for _, p := range parts {
		if k := at(p); !slices.ContainsFunc(stores, func(s *joined) bool { return s.k == k }) {
			stores = append(stores, &joined{k: k})
		}
	}
	if len(stores) == 1 {
		return parts, nil
	}
	if err := identify(ctx, stores); err != nil {
		return nil, err
	}
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b P) int { return of(a).compare(of(b)) })
	return parts, nil
}

// compare says which of two stores comes first.
func (s *joined) compare(t *joined) int {
	if (s.id == "") != (t.id == "") {
		return cmp.Compare(t.id, s.id) // the empty one last
	}
	return cmp.Compare(s.id, t.id)
}

// identify asks all stores at once for their ids.
func identify(ctx context.Context, stores []*joined) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var all sync.WaitGroup
	for _, s := range stores {
		all.Go(func() {
			if s.id, s.err = s.k.identity(ctx); errors.Is(s.err, driver.ErrUnsupported) {
				s.id, s.why, s.err = "", s.err, nil
			}
		})
	}
	all.Wait()
	for i, s := range stores {
		if s.err != nil {
			return fmt.Errorf("the id of the store (%s): %w", s.k.traits.Store, s.err)
		}
		for _, other := range stores[:i] {
			switch {
			case s.id == "" && other.id == "":
				return fmt.Errorf("%w: %s and %s keep no ids to order them by, and a join can have one such store",
					driver.ErrUnsupported, other.without(), s.without())
			case s.id == other.id:
				return fmt.Errorf("%w join: two of its clients are of one store (%s); use one client for it", ErrInvalid, s.k.traits.Store)
			}
		}
	}
	return nil
}

// without names a store that keeps no id, and why.
func (s *joined) without() string {
	if s.why == nil {
		return s.k.traits.Store
	}
	return fmt.Sprintf("%s (%v)", s.k.traits.Store, s.why)
}

// identity is the store's id, or "" if its driver has none; the error is [driver.ErrUnsupported] if the driver says why.
func (k *Keeper) identity(ctx context.Context) (id string, err error) {
	i, ok := k.d.(driver.Identifier)
	if !ok {
		return "", nil
	}
	err = reach(ctx, k.conf.Patience, func(ctx context.Context) (err error) {
		id, err = i.Identity(ctx)
		return err
	})
	return id, err
}
