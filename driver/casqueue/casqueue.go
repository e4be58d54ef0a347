// Package casqueue makes a driver of any store that can get a value and swap it if nobody has changed it: a key-value
// store, an object store with conditional writes, a table with a version column, files.
//
// The queue of a name is one value. A verb gets it, lets [driver.Queue] decide, and swaps it; if another client was
// faster, the verb begins again. So all kinds of locks work, in the order in which claims entered, and a request that
// arrives late, or twice, changes nothing: its version is no longer there. One goroutine polls the value for all of a
// client's goroutines that wait for a name, and more often for claims near the head.
//
// The store's clock judges leases: [Value.Now] comes with each value. The values of a [Store] are never removed, so
// tickets rise for as long as the store keeps what it got. An [Exchanger] may forget values; it needs fewer requests.
//
// docs/howto/bring-your-own-store.md has a whole store of under 150 lines.
package casqueue

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// A Store gets values and swaps them. Its methods may be called at once from many goroutines, and end when their context
// ends. Their errors follow [driver.Driver]: [driver.Unsent], [driver.Refused], or neither if the outcome is unknown; and
// [driver.Unreachable] if the same request may work a moment later.
type Store interface {
	// Get returns the value of a name. It is never older than the newest that any client got before Get was called.
	Get(ctx context.Context, name string) (Value, error)

	// Swap puts a text in place of the value with this version, and reports whether it did. It did not if another version
	// is there. Both are one step for all clients.
	Swap(ctx context.Context, name string, was Version, text []byte) (bool, error)

	// Names returns the names that have a value and begin with a prefix, in any order.
	Names(ctx context.Context, prefix string) ([]string, error)

	// Traits returns the promises of the store. The driver adds the promises of the queue: Ordered, Shared, Permits,
	// Delay, Amends, Asks and Wake. Granularity is the time between two readings of the store's clock. Leases are
	// made longer, by up to four times as long, so that none ends early, and the driver's own Granularity is 0.
	Traits() driver.Traits

	// Close ends every call, and frees the store's resources. It is called once.
	Close() error
}

// A Version names one value of a name. A name never has the same version twice. Empty means that there is no value.
type Version string

// A Value is the value of a name, with its version.
type Value struct {
	Text    []byte
	Version Version
	Now     time.Duration // the store's time, from any beginning; it is read after Get was called, and never goes back
	Key     string        // the store's key of the name, for errors; empty means that it is the name
}

// A Driver keeps locks in a [Store]. It implements [driver.Driver], [driver.Lister], [driver.Watcher] and
// [driver.Breaker].
type Driver struct {
	store Exchanger
	many  Many  // nil unless the store is one
	tells bool  // the store is an Exchanger: Exchange returns the new value, and Clock the time
	step  int64 // microseconds between two readings of the store's clock
	pace  *pace
	names names

	atOnce int // how many names the store is asked about at a time

	ctx     context.Context // ends when the driver is closed
	stop    context.CancelFunc
	work    sync.WaitGroup // the goroutines that poll for waiters
	closing sync.Once
	failed  error // the result of the store's Close
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
} = (*Driver)(nil)

// New returns a driver that keeps its locks in a store, which is closed with it.
func New(s Store) *Driver {
	d := NewExchanging(plain{s})
	d.tells, d.pace, d.atOnce = false, &calm, calmAtOnce
	d.many, _ = s.(Many)
	return d
}

// NewExchanging returns a driver that keeps its locks in an [Exchanger], which is closed with it.
func NewExchanging(s Exchanger) *Driver {
	d := &Driver{store: s, tells: true, pace: &brisk, atOnce: briskAtOnce, step: s.Traits().Granularity.Microseconds()}
	d.many, _ = s.(Many)
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Enter is [driver.Driver.Enter].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if !utf8.ValidString(c.ID + c.Client + c.Owner) {
		return driver.Place{}, driver.Refused(errors.New("an id, a client and an owner must be UTF-8"))
	}
	for tries := 0; ; tries++ {
		p, again, err := d.enter(ctx, c)
		switch {
		case again && tries < 2:
		case err != nil && tries > 0:
			return driver.Place{}, driver.Afterwards(err)
		default:
			return p, err
		}
	}
}

// enter enters a claim once. If it reports again, the caller must enter the claim again: the claim holds because another
// claim expired and the store does not have this change yet, or the store's clock was far later than this client knew.
func (d *Driver) enter(ctx context.Context, c *driver.Claim) (p driver.Place, again bool, err error) {
	var at moment
	after, err := d.change(ctx, c.Name, func(q *driver.Queue, m moment) (err error) {
		at = m
		p, err = m.enter(q, c)
		return err
	})
	if err != nil {
		return driver.Place{}, false, err
	}
	if p.Ticket == 0 {
		p.Retry, p.Blocker = 0, d.shown(p.Blocker)
		return p, false, nil
	}
	p, told, err := d.place(after, c, at)
	short := p.TTL < min(c.TTL, c.Wait)/2
	return p, err != nil || short || p.Holds && !told, err
}

// Renew is [driver.Driver.Renew]. It renews several names at the same time.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	renewals := make([]driver.Renewal, len(cs))
	var names []string
	byName := map[string][]int{}
	for i, c := range cs {
		if byName[c.Name] == nil {
			names = append(names, c.Name)
		}
		byName[c.Name] = append(byName[c.Name], i)
	}
	work.Each(len(names), d.atOnce, func(i int) { d.renew(ctx, names[i], cs, byName[names[i]], renewals) })
	return renewals
}

// renew renews the claims of a list that belong to one name.
func (d *Driver) renew(ctx context.Context, name string, cs []*driver.Claim, list []int, renewals []driver.Renewal) {
	var (
		at      moment
		refused error // the first claim's refusal, if all are refused
	)
	after, failed := d.change(ctx, name, func(q *driver.Queue, m moment) error {
		at, refused = m, nil
		some := false
		for _, i := range list {
			r := &renewals[i]
			_, r.Err = q.Renew(m.now, m.stretch(cs[i]))
			refused, some = cmp.Or(refused, r.Err), some || r.Err == nil
		}
		if some {
			refused = nil
		}
		return refused
	})
	for _, i := range list {
		r := &renewals[i]
		if failed != nil && !errors.Is(failed, refused) { // each claim has its own refusal
			r.Err = failed
		}
		if r.Err == nil {
			var p driver.Place
			p, _, r.Err = d.place(after, cs[i], at)
			r.TTL, r.Asks = p.TTL, after.queue.Asks(cs[i])
		}
	}
}

// Leave is [driver.Driver.Leave].
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	_, err := d.change(ctx, l.Claim.Name, func(q *driver.Queue, m moment) error {
		longer := *l
		if l.Keep > 0 {
			longer.Keep = m.lease(l.Keep)
		}
		return q.Leave(m.now, &longer)
	})
	return err
}

// Break is [driver.Breaker.Break].
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (s driver.ClaimInfo, err error) {
	_, err = d.change(ctx, b.Name, func(q *driver.Queue, m moment) (err error) {
		if b.Ask {
			s, err = q.Ask(m.now, b.Ticket)
		} else {
			s, err = q.Break(m.now, b.Ticket)
		}
		return err
	})
	return s, err
}

// Traits is [driver.Driver.Traits].
func (d *Driver) Traits() driver.Traits {
	t := d.store.Traits()
	t.Ordered, t.Shared, t.Permits, t.Delay, t.Amends, t.Asks, t.Wake = true, true, true, true, true, true, "poll"
	t.Granularity = 0 // no lease ends early, since each is made longer than requested
	return t
}

// Close is [driver.Driver.Close].
func (d *Driver) Close() error {
	d.closing.Do(func() {
		d.names.mu.Lock() // no goroutine begins to poll after this
		d.stop()
		d.names.mu.Unlock()
		d.failed = d.store.Close()
		d.work.Wait()
	})
	return d.failed
}

// ended returns the error of a call whose context or driver ended before a request was sent.
func (d *Driver) ended(ctx context.Context) error {
	if d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	return driver.Ended(ctx, false)
}
