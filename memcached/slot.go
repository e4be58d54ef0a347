package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A snapshot is the queue of a name at one moment.
type snapshot struct {
	conn  *conn  // its version counts on this connection alone: another process of the server has versions of its own
	cas   uint64 // its version; 0 if there is no value
	now   int64  // second of the server's clock; of an absent value, which does not tell, what it was at least
	name  string
	queue driver.Queue
	text  []byte // the value
	until int64
}

const second = int64(time.Second / time.Microsecond)

// micros returns the server's clock as a [driver.Queue] counts.
func (s *snapshot) micros() int64 { return s.now * second }

// clone returns the queue, to be changed.
func (s *snapshot) clone() driver.Queue {
	q := s.queue
	q.Entries = slices.Clone(q.Entries)
	return q
}

func (s *snapshot) equals(q *driver.Queue) bool {
	return s.queue.Last == q.Last && s.queue.Capacity == q.Capacity && slices.Equal(s.queue.Entries, q.Entries)
}

// ends returns the second in which the first of the leases ends.
func (s *snapshot) ends() int64 {
	first := int64(math.MaxInt64)
	for i := range s.queue.Entries {
		first = min(first, s.queue.Entries[i].Ends/second)
	}
	return first
}

// A slot has what a client saw last of a name, and lets its goroutines change the name one by one.
type slot struct {
	turn chan struct{} // has room for one, who has the slot
	uses int           // guarded by the mutex of slots
	seen *snapshot     // guarded by turn; nil if nothing is known
}

// slots are those of a client, so many of names that are not in use at the moment.
type slots struct {
	mu   sync.Mutex
	name map[string]*slot
}

const maxSlots = 1024

// take waits until the slot is free, or ctx ends.
func (s *slots) take(ctx context.Context, name string) (*slot, error) {
	s.mu.Lock()
	one := s.name[name]
	if one == nil {
		s.trim()
		one = &slot{turn: make(chan struct{}, 1)}
		s.name[name] = one
	}
	one.uses++
	s.mu.Unlock()
	select {
	case one.turn <- struct{}{}:
		return one, nil
	case <-ctx.Done():
		s.drop(one)
		return nil, driver.Ended(ctx, false)
	}
}

func (s *slots) free(one *slot) {
	<-one.turn
	s.drop(one)
}

func (s *slots) drop(one *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.uses--
}

// trim makes room. What is forgotten costs a round trip the next time.
func (s *slots) trim() {
	if len(s.name) < maxSlots {
		return
	}
	for name, one := range s.name {
		if one.uses == 0 {
			delete(s.name, name)
		}
		if len(s.name) < maxSlots/2 {
			return
		}
	}
}

// change has the queue of a name changed, and returns it as it was found right after. The error is the change's own if
// it is not nil; then nothing was changed.
//
// The change runs on what this client saw last, which is stored if it is still what is there; else on what is there now,
// until no other client is faster. What is not a change is decided by what is there now alone. Leases run out by the
// server's clock alone: at is what it showed for the queue that is changed.
func (d *Driver) change(ctx context.Context, name string, change func(q *driver.Queue, at moment) error) (*snapshot, error) {
	s, err := d.slots.take(ctx, name)
	if err != nil {
		return nil, err
	}
	defer d.slots.free(s)
	key := d.key(name)
	was, fresh := s.seen, false
	for {
		c, err := d.link.get(ctx)
		if err != nil {
			return nil, err
		}
		if was == nil || was.conn != c {
			was, fresh = &snapshot{conn: c, now: c.clock.least()}, false
		}
		if !fresh && was.ends() <= c.clock.least()+2 {
			// What has run out since must not come back, only because nobody has noticed.
			if was, err = d.read(ctx, c, name, key); err != nil {
				s.seen = nil
				return nil, driver.NotYet(d.link.explain(err))
			}
			fresh = true
		}
		q := was.clone()
		refused := change(&q, moment{now: was.micros(), ahead: max(0, c.clock.least()+1-was.now)})
		if refused == nil {
			q.Wake(was.micros())
		}
		switch {
		case refused == nil && !was.equals(&q):
			var stored bool
			was, stored, err = d.swap(ctx, was, name, key, &q)
			fresh = true
			if err == nil && stored {
				s.seen = was
				d.rooms.changed(name)
				return was, nil
			}
		case fresh:
			s.seen = was
			return was, refused
		default:
			was, err = d.read(ctx, c, name, key)
			if fresh = true; err != nil {
				s.seen = nil
				return nil, driver.NotYet(d.link.explain(err))
			}
		}
		if err != nil {
			s.seen = nil
			return nil, d.link.explain(err)
		}
	}
}

// keepLast is how many seconds a value stays after the last of its claims, so that tickets rise from one claim to the
// next although clients do not know the server's time exactly.
const keepLast = 60

// swap stores a queue in place of what a snapshot saw, if it is still there, and reads what is there then.
func (d *Driver) swap(ctx context.Context, was *snapshot, name, key string, q *driver.Queue) (*snapshot, bool, error) {
	if len(q.Entries) == 0 {
		q.Capacity = 0
	}
	until := max(was.now, was.conn.clock.least()) + keepLast
	for i := range q.Entries {
		e := &q.Entries[i]
		until = max(until, (e.Ends+e.Delay)/second+keepLast)
	}
	text := encode(name, until, q)
	request := appendGet(appendStore(make([]byte, 0, len(text)+3*len(key)+80), key, was.cas, until, text), key)
	r, err := was.conn.do(ctx, request, 2)
	if err != nil {
		return nil, false, err
	}
	stored, err := r[0].stored()
	if full(err) && len(q.Entries) == 0 && was.cas != 0 {
		return d.remove(ctx, was, key)
	}
	if err != nil {
		return nil, false, err
	}
	after := &snapshot{conn: was.conn, name: name, queue: *q, text: text, until: until}
	if err := after.takeOf(&r[1], name, key); err != nil {
		return nil, false, err
	}
	return after, stored, nil
}

// remove deletes the value of a queue that nobody is in any more, where memory is full and an empty one cannot be stored.
// The last ticket is forgotten sooner.
func (d *Driver) remove(ctx context.Context, was *snapshot, key string) (*snapshot, bool, error) {
	r, err := was.conn.do(ctx, appendGet(appendDelete(nil, key, was.cas), key), 2)
	if err != nil {
		return nil, false, err
	}
	if status := r[0].status; status != "HD" && status != "EX" && status != "NF" {
		return nil, false, r[0].unexpected()
	}
	after := &snapshot{conn: was.conn}
	if err := after.takeOf(&r[1], was.name, key); err != nil {
		return nil, false, err
	}
	return after, r[0].status == "HD", nil
}

// read returns what is there now.
func (d *Driver) read(ctx context.Context, c *conn, name, key string) (*snapshot, error) {
	r, err := c.do(ctx, appendGet(nil, key), 1)
	if err != nil {
		return nil, err
	}
	s := &snapshot{conn: c}
	return s, s.takeOf(&r[0], name, key)
}

// takeOf fills a snapshot from an answer about a name.
func (s *snapshot) takeOf(r *reply, name, key string) error {
	err := s.take(r, key)
	if err == nil && s.cas != 0 && s.name != name {
		return foreign(key, errors.New("its value is another name's"))
	}
	return err
}

// take fills a snapshot from an answer. If it has the text already, it has the queue.
func (s *snapshot) take(r *reply, key string) (err error) {
	switch r.status {
	case "EN":
		*s = snapshot{conn: s.conn, now: s.conn.clock.least()}
		return nil
	case "VA":
	default:
		return r.unexpected()
	}
	if s.cas, err = r.version(key); err != nil {
		return err
	}
	left, err := r.number('t')
	if err != nil {
		return err
	}
	if !bytes.Equal(s.text, r.data) {
		if s.name, s.until, s.queue, err = decode(r.data); err != nil {
			return foreign(key, err)
		}
		s.text = r.data
	}
	if left < 0 {
		return foreign(key, errors.New("another program has made its value one that never expires"))
	}
	s.now = s.until - left
	s.conn.clock.see(s.now)
	return nil
}

func foreign(key string, why error) error {
	return fmt.Errorf("%w: key %q: %w", driver.ErrForeign, key, why)
}

// A moment is when a queue is changed.
type moment struct {
	now   int64 // what the server's clock showed for this queue, in microseconds; leases are judged by it
	ahead int64 // seconds by which it may show more when the change comes to the server
}

// stamp is a ticket's least number.
func (m moment) stamp() int64 { return m.now + m.ahead*second }

// last returns the lease to ask for so that one of this length, at least, is left when the change is made. The server's
// clock shows whole seconds, so a lease is longer by one.
func (m moment) last(d time.Duration) time.Duration {
	return time.Duration(expiry(d)+m.ahead) * time.Second
}

// stretch returns a claim with such leases.
func (m moment) stretch(c *driver.Claim) *driver.Claim {
	longer := *c
	longer.TTL, longer.Wait = m.last(c.TTL), m.last(c.Wait)
	return &longer
}
