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

// A joined is a store with parts of a joined lock, and the id that it reports.
type joined struct {
	k   *Keeper
	id  string // "" if the store keeps none
	why error  // the driver's reason why it keeps none
	err error
}

// InOrder returns locks in the one order in which every program takes them: by the ids of their stores, then by their names.
// If all are of one keeper, they keep their order, and no store is asked. Otherwise each store is asked for its id, every
// time, since a store that lost its data has a new id.
//
// Since every program takes them in this order, no two wait for each other. A store without an id comes last; InOrder
// refuses two such stores.
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

// compare orders two stores.
func (s *joined) compare(t *joined) int {
	if (s.id == "") != (t.id == "") {
		return cmp.Compare(t.id, s.id) // the empty id last
	}
	return cmp.Compare(s.id, t.id)
}

// identify asks all stores for their ids, at the same time.
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
				return fmt.Errorf("%w join: two of its clients are of one store (%s); use one client for it", ErrInvalid,
					s.k.traits.Store)
			}
		}
	}
	return nil
}

// without describes a store that keeps no id, with the reason.
func (s *joined) without() string {
	if s.why == nil {
		return s.k.traits.Store
	}
	return fmt.Sprintf("%s (%v)", s.k.traits.Store, s.why)
}

// identity returns the store's id, or "" if its driver has none. The error is [driver.ErrUnsupported] if the driver gives a
// reason.
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
