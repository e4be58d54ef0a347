package casqueue

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A sight is the queue of a name at one moment. It does not change.
type sight struct {
	queue   driver.Queue
	version Version
	now     int64 // microseconds of the store's clock
}

// clone returns the queue, to be changed.
func (s *sight) clone() driver.Queue {
	q := s.queue
	q.Entries = slices.Clone(q.Entries)
	return q
}

func (s *sight) equals(q *driver.Queue) bool {
	return s.queue.Last == q.Last && s.queue.Capacity == q.Capacity && slices.Equal(s.queue.Entries, q.Entries)
}

// ends returns when the first of the leases ends.
func (s *sight) ends() int64 {
	first := int64(math.MaxInt64)
	for i := range s.queue.Entries {
		first = min(first, s.queue.Entries[i].Ends)
	}
	return first
}

// read returns the present queue of a name. An earlier state, which may be nil, saves work if nothing has changed since. An
// error means that no request was sent which could change the queue.
func (d *Driver) read(ctx context.Context, name string, seen *sight) (*sight, error) {
	if err := d.ended(ctx); err != nil {
		return nil, err
	}
	var version Version
	if seen != nil {
		version = seen.version
	}
	v, err := d.store.Look(ctx, name, version)
	if err != nil {
		return nil, driver.NotYet(err)
	}
	return sightOf(name, &v, seen)
}

// sightOf returns the queue in a value. The error is [driver.ErrForeign].
func sightOf(name string, v *Value, seen *sight) (*sight, error) {
	s := &sight{version: v.Version, now: v.Now.Microseconds()}
	switch {
	case v.Version == "":
	case seen != nil && seen.version == v.Version:
		s.queue = seen.queue
	default:
		var err error
		if s.queue, err = decode(name, v); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// A change changes a queue. Its error is a refusal, and nothing is changed then.
type change func(q *driver.Queue, m moment) error

// change changes the queue of a name, and returns the queue right after the change. If the change is refused, it returns
// the refusal and swaps nothing: the refusal was decided on a value that was read during this call.
//
// If another client was faster, the change is decided again. This ends: each time that a client has to begin again, another
// client has finished; and the goroutines of this client change a name one by one, in the order in which they came.
func (d *Driver) change(ctx context.Context, name string, decide change) (*sight, error) {
	one, err := d.names.take(ctx, name)
	if err != nil {
		return nil, err
	}
	defer d.names.free(one)
	after, err := d.decide(ctx, one, decide)
	if one.seen = nil; d.tells && after != nil && after.version != "" {
		one.seen = after
	}
	return after, err
}

// decide is change for a caller that has the name's turn. With a refusal it returns the state that led to it.
func (d *Driver) decide(ctx context.Context, one *name, decide change) (*sight, error) {
	was, fresh := d.guess(one), false
	for tries := 0; ; tries++ {
		if was == nil {
			var err error
			if was, err = d.read(ctx, one.text, nil); err != nil {
				return nil, err
			}
			fresh = true
		}
		q := was.clone()
		refused := decide(&q, d.moment(was))
		if refused == nil {
			q.Wake(was.now)
		}
		if refused != nil || was.equals(&q) {
			if fresh {
				return was, refused
			}
			was = nil // only the present value decides
			continue
		}
		is, made, err := d.exchange(ctx, one.text, was, &q)
		switch {
		case err != nil:
			return nil, err
		case made:
			d.names.changed(one)
			return is, nil
		}
		if was, fresh = is, true; is != nil {
			continue // a fresh value is best changed at once
		}
		if err := d.yield(ctx, tries); err != nil {
			return nil, err
		}
	}
}

// guess returns the probable state of the name, without a request: the last state that this client saw, or an empty one. It
// is nil if a lease may have run out since: an unnoticed expiry must not bring the claim back.
func (d *Driver) guess(one *name) *sight {
	switch s := one.seen; {
	case !d.tells:
		return nil
	case s == nil:
		return &sight{now: d.store.Clock().Microseconds()}
	case s.ends() < d.clock(s)+3*d.step:
		return nil
	default:
		return s
	}
}

// exchange replaces the queue that this client saw, unless another client has changed it, and returns the state afterwards.
// The state is nil if the exchange failed and the store does not return the value.
func (d *Driver) exchange(ctx context.Context, name string, was *sight, q *driver.Queue) (*sight, bool, error) {
	if err := d.ended(ctx); err != nil {
		return nil, false, err
	}
	draft := &Draft{Name: name, Was: was.version, Text: encode(name, q)}
	for i := range q.Entries {
		ends := time.Duration(q.Entries[i].Ends+q.Entries[i].Delay) * time.Microsecond
		draft.Ends = max(draft.Ends, ends)
	}
	v, made, err := d.store.Exchange(ctx, draft)
	switch {
	case err != nil:
		return nil, false, err
	case made:
		is := &sight{queue: *q, now: max(was.now, v.Now.Microseconds())}
		if string(v.Text) == string(draft.Text) { // else another client has changed it since
			is.version = v.Version
		}
		return is, true, nil
	case v.Version == "":
		return nil, false, nil
	}
	is, err := sightOf(name, &v, was)
	return is, false, err
}

// Bounds of the random pause after a failed swap. The bound grows with each failure, so that the many clients that were too
// late do not all return at once.
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
	case <-d.ctx.Done():
		return driver.ErrClosed
	}
}
