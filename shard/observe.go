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

// able returns the driver with what all stores can do beside the rest.
func (s *shards) able() driver.Driver {
	lists, watches, breaks := true, true, true
	for _, st := range s.stores {
		_, ok := st.Driver.(driver.Lister)
		lists = lists && ok
		_, ok = st.Driver.(driver.Watcher)
		watches = watches && ok
		_, ok = st.Driver.(driver.Breaker)
		breaks = breaks && ok
	}
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

// List is [driver.Lister]. A name that moves is shown as it stands where it moves from; if nobody is there, where it
// moves to.
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
			if _, shown := found[listing.Name]; st == from || st == to && !shown {
				found[listing.Name] = listing
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// Watch is [driver.Watcher]. A name that moves is watched in both stores.
func (w watcher) Watch(ctx context.Context, name string, changed func()) error {
	from, to := w.homes(name)
	if from == nil {
		return to.says(to.Driver.(driver.Watcher).Watch(ctx, name, changed))
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu      sync.Mutex // changed is not called twice at once
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

// Break is [driver.Breaker]. Of a name that moves, it removes the claim where the name moves from, and the one at the head
// where it moves to if nobody is there.
func (b breaker) Break(ctx context.Context, what *driver.Breakage) (driver.Standing, error) {
	from, to := b.homes(what.Name)
	if from != nil {
		s, err := from.Driver.(driver.Breaker).Break(ctx, what)
		if !errors.Is(err, driver.ErrGone) {
			return s, from.says(err)
		}
	}
	s, err := to.Driver.(driver.Breaker).Break(ctx, what)
	return s, to.says(err)
}
