// Package memory keeps locks in this process: the queue of package driver behind a mutex. It is for programs that need no
// more. It is also a test double: each of its drivers can lose, delay, steal and be cut off on cue; see [Driver.Inject],
// [Driver.SetLink] and [Driver.Steal].
//
// Importing it registers the scheme "memory": memory:// opens a store of its own, memory://name the store of that name,
// shared inside the process. The parameter prefix is put before every name.
package memory

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A Driver is one client's view of a [Store]. It implements [driver.Driver], [driver.Lister], [driver.Watcher],
// [driver.Breaker] and [driver.Identifier].
type Driver struct {
	store  *Store
	prefix string
	once   sync.Once
	done   chan struct{} // closed by Close
	broken known.Broken  // of its claims

	calls   [len(verbs)]atomic.Int64 // in the order of verbs
	trouble atomic.Bool              // faults are left, or the link is not up; changes with them

	mu     sync.Mutex // guards the fields below
	faults []*Fault
	link   Link
}

// New returns a driver with a store of its own.
func New() *Driver { return NewStore().Driver() }

// Store returns the store that the driver is connected to.
func (d *Driver) Store() *Store { return d.store }

// Enter is [driver.Driver.Enter].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.passes(ctx, Enter) {
		return d.enter(c)
	}
	claim := *c // a late request may be applied after c has changed
	return call(ctx, d, Enter, func() (driver.Place, error) { return d.enter(&claim) })
}

func (d *Driver) enter(c *driver.Claim) (p driver.Place, err error) {
	d.store.do(d.prefix+c.Name, func(q *queue, now int64) { p, err = q.Enter(now, d.store.stamp(now), c) })
	if err != nil {
		err = d.broken.Explain(c.ID, err)
	}
	return p, err
}

// Await is [driver.Driver.Await]. It returns at once when the claim holds.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	claim := driver.Claim{ID: c.ID, Ticket: c.Ticket} // a late request may be applied after c has changed
	if d.passes(ctx, Await) {
		return d.await(ctx, d.prefix+c.Name, &claim)
	}
	return call(ctx, d, Await, func() (driver.Place, error) { return d.await(ctx, d.prefix+c.Name, &claim) })
}

func (d *Driver) await(ctx context.Context, name string, c *driver.Claim) (p driver.Place, err error) {
	w, hears := newWait(), d.hears()
	d.store.do(name, func(q *queue, now int64) {
		if p, err = q.Look(now, c); err != nil || p.Holds && hears {
			return
		}
		q.await(c.ID, w)
	})
	if err == nil && !(p.Holds && hears) {
		err = d.wait(ctx, w)
		d.store.do(name, func(q *queue, now int64) {
			q.leave(c.ID, w)
			if err == nil {
				p, err = q.Look(now, c)
			}
		})
	}
	if errors.Is(err, driver.ErrGone) {
		return driver.Place{}, nil // its next Enter reports this
	}
	if err != nil {
		return driver.Place{}, err
	}
	return p, nil
}

// Renew is [driver.Driver.Renew].
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if d.passes(ctx, Renew) {
		return d.renew(cs)
	}
	claims := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		claim := *c
		claims[i] = &claim
	}
	answers, lost := call(ctx, d, Renew, func() ([]driver.Renewal, error) { return d.renew(claims), nil })
	if lost != nil {
		answers = make([]driver.Renewal, len(cs))
		for i := range answers {
			answers[i].Err = lost
		}
	}
	return answers
}

func (d *Driver) renew(cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		a := &answers[i]
		d.store.do(d.prefix+c.Name, func(q *queue, now int64) {
			if a.TTL, a.Err = q.Renew(now, c); a.Err == nil && c.Amend != nil {
				q.change()
			}
			a.Asks = q.Asks(c)
		})
		if a.Err != nil {
			a.Err = d.broken.Explain(c.ID, a.Err)
		}
	}
	return answers
}

// Leave is [driver.Driver.Leave].
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	if d.passes(ctx, Leave) {
		return d.leave(l)
	}
	claim := *l.Claim
	departure := driver.Release{Claim: &claim, Keep: l.Keep}
	_, err := call(ctx, d, Leave, func() (struct{}, error) { return struct{}{}, d.leave(&departure) })
	return err
}

func (d *Driver) leave(l *driver.Release) (err error) {
	d.store.do(d.prefix+l.Claim.Name, func(q *queue, now int64) { err = q.Leave(now, l) })
	return err
}

// List is [driver.Lister.List].
func (d *Driver) List(ctx context.Context, q *driver.Query) (list []driver.Listing, err error) {
	query := driver.Query{Prefix: d.prefix + q.Prefix}
	if q.Name != "" {
		query = driver.Query{Name: d.prefix + q.Name}
	}
	list, err = call(ctx, d, List, func() ([]driver.Listing, error) { return d.store.list(&query), nil })
	driver.Heard(ctx, len(list))
	for i := range list {
		list[i].Name = strings.TrimPrefix(list[i].Name, d.prefix)
	}
	return list, err
}

// Watch is [driver.Watcher.Watch]. It notices changes at once.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	_, err := call(ctx, d, Watch, func() (struct{}, error) { return struct{}{}, d.watch(ctx, d.prefix+name, changed) })
	return err
}

func (d *Driver) watch(ctx context.Context, name string, changed func()) error {
	w := newWait()
	d.store.do(name, func(q *queue, now int64) { q.watch(w, now) })
	defer d.store.do(name, func(q *queue, _ int64) { q.leave("", w) })
	for {
		changed()
		if err := d.wait(ctx, w); err != nil {
			return err
		}
	}
}

// Break is [driver.Breaker.Break].
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	breakage := *b
	return call(ctx, d, Break, func() (s driver.ClaimInfo, err error) {
		var alerts []func()
		d.store.do(d.prefix+breakage.Name, func(q *queue, now int64) {
			if breakage.Ask {
				s, err = q.Ask(now, breakage.Ticket)
			} else {
				var removed driver.Entry
				if removed, s, err = q.Remove(now, breakage.Ticket); err == nil {
					alerts = d.store.heard(removed.ID, breakage.Record)
				}
			}
		})
		for _, alert := range alerts {
			alert()
		}
		return s, err
	})
}

// Alert is [driver.Alerter.Alert]. The driver alerts its user of broken claims.
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.store.alerted.Store(d, func(id, record string) (alert func()) {
		if !d.hears() {
			return func() {}
		}
		d.broken.Heard(id, record)
		return func() { endangered(id) }
	})
}

// Identity is [driver.Identifier.Identity]. The id is drawn when the store is made.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	return call(ctx, d, Identity, func() (string, error) {
		if d.prefix == "" {
			return d.store.id, nil
		}
		return d.store.id + "/" + driver.EncodeName(d.prefix), nil
	})
}

var notes = []string{"locks live only in this process and end with it"}

// Traits is [driver.Driver.Traits].
func (d *Driver) Traits() driver.Traits {
	return driver.Traits{
		Store: "memory", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, Asks: true, HearsBreak: true,
		Fencing: driver.ClockFencing, Clock: "process", Wake: "push",
		MinTTL: time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Microsecond,
		Notes: notes,
	}
}

// Close is [driver.Driver.Close]. Calls that wait end with [driver.ErrClosed].
func (d *Driver) Close() error {
	d.once.Do(func() {
		close(d.done)
		d.store.alerted.Delete(d)
	})
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
		return nil, driver.Refused(errors.New("a memory:// URL is memory:// or memory://name, with no user and no path"))
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
