package casqueue

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A sight is the queue of a name as it was at one moment.
type sight struct {
	queue   driver.Queue
	version Version
	now     int64 // microseconds of the store's clock
}

// get returns the queue of a name. Nothing was sent that could change it.
func (d *Driver) get(ctx context.Context, name string) (*sight, error) {
	select {
	case <-d.closed:
		return nil, driver.ErrClosed
	default:
	}
	if err := driver.Ended(ctx, false); err != nil {
		return nil, err
	}
	v, err := d.store.Get(ctx, name)
	if err != nil {
		return nil, driver.NotYet(err)
	}
	s := &sight{version: v.Version, now: v.Now.Microseconds()}
	if v.Version == "" {
		return s, nil
	}
	s.queue, err = decode(name, v.Text)
	return s, err
}

// sorted returns the names with a prefix, in order.
func (d *Driver) sorted(ctx context.Context, prefix string) ([]string, error) {
	select {
	case <-d.closed:
		return nil, driver.ErrClosed
	default:
	}
	names, err := d.store.Names(ctx, prefix)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// change has the queue of a name changed. A refusal of the change is returned, and nothing is swapped then: it was decided
// on a value that was read during this call.
//
// If another client was faster, the change is decided anew. That ends: each time that a client has to begin again, another
// one is done; and the goroutines of this client change a name one by one, in the order in which they came.
func (d *Driver) change(ctx context.Context, name string, decide func(q *driver.Queue, now int64) error) error {
	one, err := d.names.take(ctx, name)
	if err != nil {
		return err
	}
	defer d.names.free(name, one)
	for tries := 0; ; tries++ {
		s, err := d.get(ctx, name)
		if err != nil {
			return err
		}
		q := s.queue
		q.Entries = slices.Clone(q.Entries)
		if err := decide(&q, s.now); err != nil {
			return err
		}
		q.Wake(s.now)
		if q.Last == s.queue.Last && slices.Equal(q.Entries, s.queue.Entries) {
			return nil
		}
		swapped, err := d.store.Swap(ctx, name, s.version, encode(name, &q))
		switch {
		case err != nil:
			return err
		case swapped:
			d.names.changed(one)
			return nil
		}
		if err := d.yield(ctx, tries); err != nil {
			return err
		}
	}
}

// The pause after a swap that failed is from nothing up to so much, more each time, so that the many who were too late do
// not all come again at once.
const (
	firstPause = 500 * time.Microsecond
	longest    = 32 * time.Millisecond
)

func (d *Driver) yield(ctx context.Context, tries int) error {
	pause := time.NewTimer(rand.N(min(firstPause<<min(tries, 16), longest)))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, false) // each of its swaps failed
	case <-d.closed:
		return driver.ErrClosed
	}
}

// names are those that this client changes or waits for.
type names struct {
	mu  sync.Mutex // guards what follows, and what is in it
	all map[string]*name
}

// A name is where this client's goroutines meet.
type name struct {
	turn chan struct{} // has room for one, who changes it
	news chan struct{} // closed when this client has changed it, and made anew
	uses int
}

// use returns the name, to be given back by done.
func (n *names) use(text string) *name {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.all[text]
	if one == nil {
		if n.all == nil {
			n.all = map[string]*name{}
		}
		one = &name{turn: make(chan struct{}, 1), news: make(chan struct{})}
		n.all[text] = one
	}
	one.uses++
	return one
}

func (n *names) done(text string, one *name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one.uses--; one.uses == 0 {
		delete(n.all, text)
	}
}

// take waits until nobody else of this client changes the name, or ctx ends.
func (n *names) take(ctx context.Context, text string) (*name, error) {
	one := n.use(text)
	select {
	case one.turn <- struct{}{}:
		return one, nil
	case <-ctx.Done():
		n.done(text, one)
		return nil, driver.Ended(ctx, false)
	}
}

func (n *names) free(text string, one *name) {
	<-one.turn
	n.done(text, one)
}

// changed has those of this client look who wait for the name.
func (n *names) changed(one *name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(one.news)
	one.news = make(chan struct{})
}

// next returns what is closed at the next change by this client.
func (n *names) next(one *name) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return one.news
}
