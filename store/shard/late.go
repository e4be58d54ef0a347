package shard

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A late is a store that could not be reached when the others were opened. The first call that can reach it opens it.
type late struct {
	url      string
	promised driver.Traits   // the promises of the others, which the caller knows
	opening  chan struct{}   // has room for one: the call that tries
	life     context.Context // ends with Close
	end      context.CancelFunc

	mu    sync.Mutex // guards the fields below
	d     driver.Driver
	err   error     // why it is not open
	tried time.Time // the time of that attempt
	alert func(ids ...string)
}

// lateAgain is the pause between two attempts to open a store.
const lateAgain = time.Second

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
} = (*late)(nil)

func newLate(url string, promised driver.Traits, err error) *late {
	l := &late{url: url, promised: promised, err: driver.NotYet(err), tried: time.Now(), opening: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// get returns the store's driver, and opens it if it is time to try. Its errors say that nothing was sent.
func (l *late) get(ctx context.Context) (driver.Driver, error) {
	if d, err := l.known(); d != nil || err != nil {
		return d, err
	}
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return nil, driver.Ended(ctx, false)
	case <-l.life.Done():
		return nil, driver.ErrClosed
	}
	if d, err := l.known(); d != nil || err != nil {
		return d, err
	}
	d, err := l.open(ctx)
	return l.storeOpened(ctx, d, err)
}

// open opens the store, which must keep the promises of the others.
func (l *late) open(ctx context.Context) (driver.Driver, error) {
	alive, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(l.life, cancel)()
	defer cancel()
	d, err := driver.Open(alive, l.url)
	if err == nil && weaker(d.Traits(), l.promised) {
		d.Close()
		return nil, driver.Refused(errors.New("the store promises less than the others did when they were opened: open them all anew"))
	}
	return d, err
}

// storeOpened notes the opened driver, or the error.
func (l *late) storeOpened(ctx context.Context, d driver.Driver, err error) (driver.Driver, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.life.Err() != nil:
		if d != nil {
			d.Close()
		}
		return nil, driver.ErrClosed
	case err != nil && ctx.Err() != nil: // it says nothing about the store
		return nil, driver.Ended(ctx, false)
	case err != nil:
		l.err, l.tried = driver.NotYet(err), time.Now()
		return nil, l.err
	}
	if a, ok := d.(driver.Alerter); ok && l.alert != nil {
		a.Alert(l.alert)
	}
	l.d = d
	return d, nil
}

// known returns the driver, or the error of a recent attempt, or neither.
func (l *late) known() (driver.Driver, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.life.Err() != nil:
		return nil, driver.ErrClosed
	case l.d != nil:
		return l.d, nil
	case time.Since(l.tried) < lateAgain:
		return nil, l.err
	}
	return nil, nil
}

// weaker reports whether traits promise less than others.
func weaker(t, than driver.Traits) bool {
	both := driver.Weakest(than, t)
	both.Notes, than.Notes = nil, nil
	both.Warnings, than.Warnings = nil, nil
	return !reflect.DeepEqual(both, than)
}

// Enter is [driver.Driver].
func (l *late) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d, err := l.get(ctx)
	if err != nil {
		return driver.Place{}, err
	}
	return d.Enter(ctx, c)
}

// Await is [driver.Driver].
func (l *late) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d, err := l.get(ctx)
	if err != nil {
		return driver.Place{}, err
	}
	return d.Await(ctx, c)
}

// Renew is [driver.Driver].
func (l *late) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	d, err := l.get(ctx)
	if err == nil {
		return d.Renew(ctx, cs)
	}
	renewals := make([]driver.Renewal, len(cs))
	for i := range renewals {
		renewals[i].Err = err
	}
	return renewals
}

// Leave is [driver.Driver].
func (l *late) Leave(ctx context.Context, gone *driver.Release) error {
	d, err := l.get(ctx)
	if err != nil {
		return err
	}
	return d.Leave(ctx, gone)
}

// List is [driver.Lister].
func (l *late) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	d, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	if can, ok := d.(driver.Lister); ok {
		return can.List(ctx, q)
	}
	return nil, driver.ErrUnsupported
}

// Watch is [driver.Watcher].
func (l *late) Watch(ctx context.Context, name string, changed func()) error {
	d, err := l.get(ctx)
	if err != nil {
		return err
	}
	if can, ok := d.(driver.Watcher); ok {
		return can.Watch(ctx, name, changed)
	}
	return driver.ErrUnsupported
}

// Break is [driver.Breaker].
func (l *late) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	d, err := l.get(ctx)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	if can, ok := d.(driver.Breaker); ok {
		return can.Break(ctx, b)
	}
	return driver.ClaimInfo{}, driver.ErrUnsupported
}

// Alert is [driver.Alerter].
func (l *late) Alert(endangered func(ids ...string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alert = endangered
}

// Traits is [driver.Driver]. Before the store is open it returns the traits of the other stores, which this one must
// keep.
func (l *late) Traits() driver.Traits {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.d != nil {
		return l.d.Traits()
	}
	return l.promised
}

// Close is [driver.Driver].
func (l *late) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	if l.d == nil {
		return nil
	}
	return l.d.Close()
}
