// Package memory keeps locks in this process: the queue of package driver behind a mutex. It is for programs that need
// no more, and it is a test double, since each of its drivers can lose, delay, steal and be cut off on cue: see
// [Driver.Inject], [Driver.SetLink] and [Driver.Steal].
//
// Importing it registers the scheme "memory": memory:// opens a store of its own, memory://name the store of that name,
// shared inside the process. The parameter prefix is put before every name.
package memory

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Driver is one client's view of a [Store]. It implements [driver.Driver], [driver.Lister], [driver.Watcher] and
// [driver.Breaker].
type Driver struct {
	store  *Store
	prefix string
	once   sync.Once
	done   chan struct{} // closed by Close

	mu     sync.Mutex // guards what follows
	faults []*Fault
	link   Link
	calls  map[Verb]int
}

// New returns a driver with a store of its own.
func New() *Driver { return NewStore().Driver() }

// Store returns the store that the driver is connected to.
func (d *Driver) Store() *Store { return d.store }

// Enter is [driver.Driver.Enter].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	claim := *c // a late request is applied when c may have changed
	return call(ctx, d, Enter, func() (p driver.Place, err error) {
		d.store.do(d.prefix+claim.Name, func(q *queue, now int64) {
			p, err = q.Enter(now, d.store.stamp(now), &claim)
		})
		return p, err
	})
}

// Await is [driver.Driver.Await]. It is told at once.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	name, id := d.prefix+c.Name, c.ID
	return call(ctx, d, Await, func() (driver.Place, error) { return d.await(ctx, name, id) })
}

func (d *Driver) await(ctx context.Context, name, id string) (p driver.Place, err error) {
	w, hears := newWait(), d.hears()
	d.store.do(name, func(q *queue, now int64) {
		if p, err = q.Look(now, id); err != nil || p.Holds && hears {
			return
		}
		if q.waits[id] == nil {
			q.waits[id] = map[*wait]bool{}
		}
		q.waits[id][w] = true
	})
	if err == nil && !(p.Holds && hears) {
		err = d.wait(ctx, w)
		d.store.do(name, func(q *queue, now int64) {
			delete(q.waits[id], w)
			if len(q.waits[id]) == 0 {
				delete(q.waits, id)
			}
			if err == nil {
				p, err = q.Look(now, id)
			}
		})
	}
	if errors.Is(err, driver.ErrGone) {
		return driver.Place{}, nil // its next Enter is told
	}
	if err != nil {
		return driver.Place{}, err
	}
	return p, nil
}

// Renew is [driver.Driver.Renew].
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	claims := make([]driver.Claim, len(cs))
	for i, c := range cs {
		claims[i] = *c
	}
	answers, lost := call(ctx, d, Renew, func() ([]driver.Renewal, error) {
		answers := make([]driver.Renewal, len(claims))
		for i := range claims {
			d.store.do(d.prefix+claims[i].Name, func(q *queue, now int64) {
				answers[i].TTL, answers[i].Err = q.Renew(now, &claims[i])
			})
		}
		return answers, nil
	})
	if lost != nil {
		answers = make([]driver.Renewal, len(cs))
		for i := range answers {
			answers[i].Err = lost
		}
	}
	return answers
}

// Leave is [driver.Driver.Leave].
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	claim := *l.Claim
	departure := driver.Departure{Claim: &claim, Keep: l.Keep}
	_, err := call(ctx, d, Leave, func() (_ struct{}, err error) {
		d.store.do(d.prefix+claim.Name, func(q *queue, now int64) { err = q.Leave(now, &departure) })
		return struct{}{}, err
	})
	return err
}

// List is [driver.Lister.List].
func (d *Driver) List(ctx context.Context, q *driver.Query) (list []driver.Listing, err error) {
	query := driver.Query{Prefix: d.prefix + q.Prefix}
	if q.Name != "" {
		query = driver.Query{Name: d.prefix + q.Name}
	}
	list, err = call(ctx, d, List, func() ([]driver.Listing, error) { return d.store.list(&query), nil })
	for i := range list {
		list[i].Name = strings.TrimPrefix(list[i].Name, d.prefix)
	}
	return list, err
}

// Watch is [driver.Watcher.Watch]. It is told at once.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	_, err := call(ctx, d, Watch, func() (struct{}, error) { return struct{}{}, d.watch(ctx, d.prefix+name, changed) })
	return err
}

func (d *Driver) watch(ctx context.Context, name string, changed func()) error {
	w := newWait()
	d.store.do(name, func(q *queue, _ int64) { q.watches[w] = true })
	defer d.store.do(name, func(q *queue, _ int64) { delete(q.watches, w) })
	for {
		changed()
		if err := d.wait(ctx, w); err != nil {
			return err
		}
	}
}

// Break is [driver.Breaker.Break].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (driver.Standing, error) {
	breakage := *b
	return call(ctx, d, Break, func() (s driver.Standing, err error) {
		d.store.do(d.prefix+breakage.Name, func(q *queue, now int64) { s, err = q.Break(now, breakage.Ticket) })
		return s, err
	})
}

// Traits is [driver.Driver.Traits].
func (d *Driver) Traits() driver.Traits {
	return driver.Traits{
		Store: "memory", Ordered: true, Shared: true, Permits: true, Delay: true, Fencing: driver.ClockFencing,
		Clock: "process", Wake: "push",
		MinTTL: time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Microsecond,
		Notes: []string{"locks live in this process alone and end with it"},
	}
}

// Close is [driver.Driver.Close]. Calls that wait end with [driver.ErrClosed].
func (d *Driver) Close() error {
	d.once.Do(func() { close(d.done) })
	return nil
}

var named struct {
	sync.Mutex
	stores map[string]*Store
}

func init() { driver.Register("memory", open) }

func open(_ context.Context, a *driver.Address) (driver.Driver, error) {
	prefix := a.Param("prefix", "")
	if err := a.Done(); err != nil {
		return nil, err
	}
	if a.User != "" || a.Password != "" || a.Path != "" || len(a.Hosts) > 1 {
		return nil, driver.Rejected(errors.New("a memory:// URL is memory:// or memory://name, with no user and no path"))
	}
	store := NewStore()
	if len(a.Hosts) == 1 {
		named.Lock()
		defer named.Unlock()
		if shared := named.stores[a.Hosts[0]]; shared != nil {
			store = shared
		} else if named.stores == nil {
			named.stores = map[string]*Store{a.Hosts[0]: store}
		} else {
			named.stores[a.Hosts[0]] = store
		}
	}
	d := store.Driver()
	d.prefix = prefix
	return d, nil
}
