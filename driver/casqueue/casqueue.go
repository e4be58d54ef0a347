// Package casqueue makes a driver of any store that can get a value and swap it if nobody has changed it: a key-value
// store, an object store with conditional writes, a table with a version column, files.
//
// The queue of a name is one value. A verb gets it, lets [driver.Queue] decide, and swaps it; if another client was
// faster, the verb begins again. So all kinds of locks work, in the order in which claims entered, and a request that
// arrives late, or twice, changes nothing: its version is no longer there. Waiters look at the value again and again,
// those at the head most often.
//
// The store's clock judges leases: [Value.Now] comes with each value. Values are never removed, so tickets rise for as
// long as the store keeps what it was told.
//
// docs/bring-your-own-store.md has a whole store of under 150 lines.
package casqueue

import (
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A Store gets values and swaps them. Its methods may be called at once from many goroutines, and end when their context
// ends. Their errors follow [driver.Driver]: [driver.Unsent], [driver.Refused], or neither if the outcome is unknown; and
// [driver.Unreachable] if the same request may work a moment later.
type Store interface {
	// Get returns the value of a name. It is never older than the newest that any client was told of before Get was called.
	Get(ctx context.Context, name string) (Value, error)

	// Swap puts a text in place of the value with this version, and reports whether it did. It did not if another version
	// is there. Both are one step for all clients.
	Swap(ctx context.Context, name string, was Version, text []byte) (bool, error)

	// Names returns the names that have a value and begin with a prefix, in any order.
	Names(ctx context.Context, prefix string) ([]string, error)

	// Traits tells what the store can promise. Those of the queue are filled in: Ordered, Shared, Permits, Delay and Wake.
	Traits() driver.Traits

	// Close ends every call, and frees what the store took. It is called once.
	Close() error
}

// A Version names one value of a name. A name never has the same version twice. Empty means that there is no value.
type Version string

// A Value is what a name has.
type Value struct {
	Text    []byte
	Version Version
	Now     time.Duration // what the store's clock shows, since whenever; it is read after Get was called, and never goes back
}

// A Driver keeps locks in a [Store]. It implements [driver.Driver], [driver.Lister], [driver.Watcher] and
// [driver.Breaker].
type Driver struct {
	store Store
	names names

	closed  chan struct{}
	closing sync.Once
	failed  error // of the store's Close
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
} = (*Driver)(nil)

// New returns a driver that keeps its locks in a store, which is closed with it.
func New(s Store) *Driver {
	return &Driver{store: s, closed: make(chan struct{})}
}

// Enter is [driver.Driver.Enter].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (p driver.Place, err error) {
	if !utf8.ValidString(c.ID + c.Client + c.Owner) {
		return driver.Place{}, driver.Refused(errors.New("an id, a client and an owner must be UTF-8"))
	}
	failed := d.change(ctx, c.Name, func(q *driver.Queue, now int64) error {
		p, err = q.Enter(now, 1, c)
		return err
	})
	if failed != nil {
		return driver.Place{}, failed
	}
	return p, nil
}

// Renew is [driver.Driver.Renew]. Names are renewed at the same time, a few of them.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	renewals := make([]driver.Renewal, len(cs))
	byName := map[string][]int{}
	for i, c := range cs {
		byName[c.Name] = append(byName[c.Name], i)
	}
	var (
		work sync.WaitGroup
		room = make(chan struct{}, maxAtOnce)
	)
	for name, list := range byName {
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			d.renew(ctx, name, cs, list, renewals)
		})
	}
	work.Wait()
	return renewals
}

// maxAtOnce is for how many names the store is asked at a time, for one call.
const maxAtOnce = 16

// renew renews those claims of a list that are of one name.
func (d *Driver) renew(ctx context.Context, name string, cs []*driver.Claim, list []int, renewals []driver.Renewal) {
	failed := d.change(ctx, name, func(q *driver.Queue, now int64) error {
		err := driver.ErrGone
		for _, i := range list {
			r := &renewals[i]
			if r.TTL, r.Err = q.Renew(now, cs[i]); r.Err == nil {
				err = nil
			}
		}
		return err
	})
	for _, i := range list {
		if r := &renewals[i]; failed != nil {
			*r = driver.Renewal{Err: failed}
		}
	}
}

// Leave is [driver.Driver.Leave].
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	return d.change(ctx, l.Claim.Name, func(q *driver.Queue, now int64) error { return q.Leave(now, l) })
}

// Break is [driver.Breaker.Break].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (s driver.Standing, err error) {
	failed := d.change(ctx, b.Name, func(q *driver.Queue, now int64) error {
		s, err = q.Break(now, b.Ticket)
		return err
	})
	return s, failed
}

// List is [driver.Lister.List].
func (d *Driver) List(ctx context.Context, query *driver.Query) ([]driver.Listing, error) {
	names := []string{query.Name}
	if query.Name == "" {
		var err error
		if names, err = d.sorted(ctx, query.Prefix); err != nil {
			return nil, err
		}
	}
	var list []driver.Listing
	for _, name := range names {
		s, err := d.get(ctx, name)
		if err != nil {
			return nil, err
		}
		if claims := s.queue.List(s.now); len(claims) > 0 {
			list = append(list, driver.Listing{Name: name, Capacity: s.queue.Capacity, Claims: claims})
		}
	}
	return list, nil
}

// Traits is [driver.Driver.Traits].
func (d *Driver) Traits() driver.Traits {
	t := d.store.Traits()
	t.Ordered, t.Shared, t.Permits, t.Delay, t.Wake = true, true, true, true, "poll"
	return t
}

// Close is [driver.Driver.Close].
func (d *Driver) Close() error {
	d.closing.Do(func() {
		close(d.closed)
		d.failed = d.store.Close()
	})
	return d.failed
}
