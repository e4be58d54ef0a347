package shard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/stilelock/stile/driver"
)

type (
	lister  struct{ *shards }
	watcher struct{ *shards }
	breaker struct{ *shards }
)

// all reports whether all stores have a power.
func (s *shards) all(has func(d driver.Driver) bool) bool {
	return !slices.ContainsFunc(s.stores, func(st *store) bool { return !has(st.Driver) })
}

// able returns the driver with the optional powers that all stores have.
func (s *shards) able() driver.Driver {
	lists := s.all(func(d driver.Driver) bool { _, ok := d.(driver.Lister); return ok })
	watches := s.all(func(d driver.Driver) bool { _, ok := d.(driver.Watcher); return ok })
	breaks := s.all(func(d driver.Driver) bool { _, ok := d.(driver.Breaker); return ok })
	l, w, b := lister{s}, watcher{s}, breaker{s}
	switch {
	case lists && watches && breaks:
		return struct {
			*shards
			driver.Lister
			driver.Watcher
			driver.Breaker
		}{s, l, w, b}
	case lists && watches:
		return struct {
			*shards
			driver.Lister
			driver.Watcher
		}{s, l, w}
	case lists && breaks:
		return struct {
			*shards
			driver.Lister
			driver.Breaker
		}{s, l, b}
	case watches && breaks:
		return struct {
			*shards
			driver.Watcher
			driver.Breaker
		}{s, w, b}
	case lists:
		return struct {
			*shards
			driver.Lister
		}{s, l}
	case watches:
		return struct {
			*shards
			driver.Watcher
		}{s, w}
	case breaks:
		return struct {
			*shards
			driver.Breaker
		}{s, b}
	}
	return s
}

// List is [driver.Lister]. It shows a moving name's claims in the old store or, if there are none, in the new one.
func (l lister) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	stores := l.stores
	if q.Name != "" {
		from, to := l.homes(q.Name)
		if stores = []*store{to}; from != nil {
			stores = []*store{from, to}
		}
	}
	var (
		lists = make([][]driver.Listing, len(stores))
		errs  = make([]error, len(stores))
		asked sync.WaitGroup
	)
	for i, st := range stores {
		asked.Go(func() {
			lists[i], errs[i] = st.Driver.(driver.Lister).List(ctx, q)
			errs[i] = st.says(errs[i])
		})
	}
	asked.Wait()
	found := map[string]driver.Listing{}
	for i, st := range stores {
		if errs[i] != nil {
			return nil, errs[i]
		}
		for _, listing := range lists[i] {
			from, to := l.homes(listing.Name)
			if _, shown := found[listing.Name]; listing.Name != memberName && (st == from || st == to && !shown) {
				found[listing.Name] = listing
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// Watch is [driver.Watcher]. A moving name is watched in both stores.
func (w watcher) Watch(ctx context.Context, name string, changed func()) error {
	from, to := w.homes(name)
	if from == nil {
		return to.says(to.Driver.(driver.Watcher).Watch(ctx, name, changed))
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu      sync.Mutex // changed must not be called twice at once
		ended   = make(chan error, 2)
		watches sync.WaitGroup
	)
	for _, st := range []*store{from, to} {
		watches.Go(func() {
			defer cancel()
			ended <- st.says(st.Driver.(driver.Watcher).Watch(both, name, func() {
				mu.Lock()
				defer mu.Unlock()
				changed()
			}))
		})
	}
	watches.Wait()
	return <-ended
}

// Break is [driver.Breaker]. For a moving name, it removes the claim in the old store, and the claim in the new store that
// looks the same; or the one in the new store, if the old one has none. It asks for a claim in only one of the two, since
// the holder renews it in both.
func (b breaker) Break(ctx context.Context, what *driver.BreakRequest) (driver.ClaimInfo, error) {
	from, to := b.homes(what.Name)
	if from == nil {
		s, err := to.Driver.(driver.Breaker).Break(ctx, what)
		return s, to.says(err)
	}
	s, err := from.Driver.(driver.Breaker).Break(ctx, what)
	switch {
	case errors.Is(err, driver.ErrGone):
		if empty, err := from.empty(ctx, what.Name); !empty {
			return s, err // the ticket would be another claim's there
		}
		s, err = to.Driver.(driver.Breaker).Break(ctx, what)
		return s, to.says(err)
	case err == nil && s.Holds && !what.Ask:
		// If this fails, the claim's client removes it at its next renewal.
		_ = to.breakLike(ctx, what.Name, &s)
	}
	return s, from.says(err)
}

// empty reports whether a store lists no claim of a name. The error is [driver.ErrGone] if there is one.
func (st *store) empty(ctx context.Context, name string) (bool, error) {
	lister, ok := st.Driver.(driver.Lister)
	if !ok {
		return false, driver.ErrGone
	}
	switch all, err := lister.List(ctx, &driver.Query{Name: name}); {
	case err != nil:
		return false, st.says(err)
	case len(all) > 0:
		return false, driver.ErrGone
	}
	return true, nil
}

// breakLike removes a claim that looks like another. Each store gives tickets of its own.
func (st *store) breakLike(ctx context.Context, name string, other *driver.ClaimInfo) error {
	lister, ok := st.Driver.(driver.Lister)
	if !ok {
		return driver.ErrUnsupported
	}
	all, err := lister.List(ctx, &driver.Query{Name: name})
	if err != nil {
		return err
	}
	for _, l := range all {
		for _, c := range l.Claims {
			if c.Record == other.Record && c.Weight == other.Weight && !c.Left {
				_, err := st.Driver.(driver.Breaker).Break(ctx, &driver.BreakRequest{Name: name, Ticket: c.Ticket})
				return err
			}
		}
	}
	return driver.ErrGone
}
