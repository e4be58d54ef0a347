package quorum

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stilelock/stile/driver"
)

// observed is a quorum of members whose tickets are the same on all nodes, so that an observer can see the claims of
// a majority.
type observed struct{ *Driver }

var _ interface {
	driver.Driver
	driver.Lister
	driver.Breaker
} = (*observed)(nil)

// gather asks all nodes, and returns their answers and their errors.
func gather[T any](
	ctx context.Context, d *Driver, what func(ctx context.Context, m Member) (T, error),
) ([]T, []error, error) {
	var (
		mu      sync.Mutex
		answers []T
		errs    []error
		all     sync.WaitGroup
	)
	all.Add(len(d.nodes.list))
	d.mu.Lock()
	// Nobody reads an answer after the caller is gone, so the caller's context bounds the calls.
	err := d.rounds.sendLocked(d.timeout(d.o.MaxTTL), "", d.nodes.list, func(_ context.Context, n *node, _ error) {
		defer all.Done()
		within, cancel := driver.WithPatience(ctx, d.timeout(d.o.MaxTTL), context.DeadlineExceeded)
		defer cancel()
		var a T
		store, err := n.store()
		if err == nil {
			m := store.(Member)
			a, err = askMember(within, n, m, func() (T, error) { return what(within, m) })
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if !errors.Is(err, driver.ErrGone) {
				err = n.says(err)
			}
			errs = append(errs, err)
			return
		}
		answers = append(answers, a)
	})
	d.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	all.Wait()
	select {
	case <-d.workers.closed:
		return nil, nil, driver.ErrClosed
	default:
	}
	return answers, errs, driver.Ended(ctx, true)
}

// List returns the claims that a majority of the nodes shows.
func (o *observed) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	lists, errs, err := gather(ctx, o.Driver, func(ctx context.Context, m Member) ([]driver.Listing, error) {
		return m.List(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	if len(lists) < o.rule.need {
		return nil, driver.Unreachable(errs[0])
	}
	var (
		shown = map[string][]driver.ClaimInfo{} // by name, the nodes' answers
		found = map[string]driver.Listing{}
	)
	for _, list := range lists {
		for _, l := range list {
			for _, s := range l.Claims {
				shown[l.Name] = append(shown[l.Name], s)
				if c, ok := o.rule.agreed(shown[l.Name]); ok {
					found[l.Name] = driver.Listing{Name: l.Name, Capacity: l.Capacity, Claims: []driver.ClaimInfo{c}}
				}
			}
		}
	}
	all := slices.Collect(maps.Values(found))
	slices.SortFunc(all, func(a, b driver.Listing) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Break removes a claim from all nodes, or asks for it there.
func (o *observed) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	removed, errs, err := gather(ctx, o.Driver, func(ctx context.Context, m Member) (driver.ClaimInfo, error) {
		return m.Break(ctx, b)
	})
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	return o.rule.broken(b.Ask, removed, errs)
}
