package memory

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Store keeps queues in this process. Its drivers share it, as several processes would share a server.
//
// Leases are judged by the monotonic clock, so under testing/synctest by that clock. No goroutine runs while nobody waits.
type Store struct {
	base time.Time // its monotonic reading is 0 on the store's clock; tickets add its wall reading

	mu      sync.Mutex // guards what follows; nothing blocks under it
	queues  map[string]*queue
	sweepAt int // how many queues there may be before those that can be forgotten are looked for
}

// A queue is the claims of one name and those who wait for a change of them.
type queue struct {
	driver.Queue
	waits   map[string]map[*wait]bool // by claim
	watches map[*wait]bool
	seen    shape       // what the watches were told of
	timer   *time.Timer // set to the next expiry while anyone waits; nil before the first wait
}

// A wait is told through a channel that has room for one event, so that telling never blocks.
type wait struct{ event chan struct{} }

func newWait() *wait { return &wait{event: make(chan struct{}, 1)} }

func (w *wait) tell() {
	select {
	case w.event <- struct{}{}:
	default: // told already, and has not looked yet
	}
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{base: time.Now(), queues: map[string]*queue{}, sweepAt: minSweep}
}

// Driver connects one more client to the store.
func (s *Store) Driver() *Driver {
	return &Driver{store: s, done: make(chan struct{})}
}

// now is the store's clock in microseconds. The ticket's stamp is base's wall time plus now, so it never runs back.
func (s *Store) now() int64 { return time.Since(s.base).Microseconds() }

func (s *Store) stamp(now int64) int64 { return s.base.UnixMicro() + now }

// do runs f on the queue of a name, then tells everyone whom the change concerns.
func (s *Store) do(name string, f func(q *queue, now int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		s.sweep()
		q = &queue{waits: map[string]map[*wait]bool{}, watches: map[*wait]bool{}}
		s.queues[name] = q
	}
	now := s.now()
	f(q, now)
	q.Wake(now)
	q.tell(now)
	q.arm(now, func() { s.do(name, func(*queue, int64) {}) })
	if s.idle(q, now) {
		delete(s.queues, name)
	}
}

// idle reports that a queue may be forgotten: nothing is in it, nobody waits, and the next stamp is above its last ticket.
func (s *Store) idle(q *queue, now int64) bool {
	return len(q.Entries) == 0 && len(q.waits) == 0 && len(q.watches) == 0 && q.Last < s.stamp(now)
}

const minSweep = 64

// sweep forgets idle queues that no call has touched since they ran empty. It looks whenever their number has doubled,
// so its cost is spread over the calls that made them.
func (s *Store) sweep() {
	if len(s.queues) < s.sweepAt {
		return
	}
	now := s.now()
	for name, q := range s.queues {
		if len(q.waits) == 0 && len(q.watches) == 0 {
			q.Expire(now)
		}
		if s.idle(q, now) {
			delete(s.queues, name)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.queues))
}

// list returns the queues that a query selects.
func (s *Store) list(query *driver.Query) []driver.Listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var all []driver.Listing
	for name, q := range s.queues {
		if query.Name != "" && name != query.Name || query.Name == "" && !strings.HasPrefix(name, query.Prefix) {
			continue
		}
		if claims := q.List(now); len(claims) > 0 {
			all = append(all, driver.Listing{Name: name, Capacity: q.Capacity, Claims: claims})
		}
	}
	slices.SortFunc(all, func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// A shape differs whenever claims entered, left, are kept, or ran out.
type shape struct {
	last                  int64
	entries, kept, ranOut int
}

func (q *queue) shape(now int64) shape {
	s := shape{last: q.Last, entries: len(q.Entries)}
	for i := range q.Entries {
		switch e := &q.Entries[i]; {
		case e.Left:
			s.kept++
		case e.Ends <= now: // only the lock-delay is left of it
			s.ranOut++
		}
	}
	return s
}

// tell tells those who wait for a claim that holds or is gone, and all watches if the queue has changed.
func (q *queue) tell(now int64) {
	if len(q.waits) > 0 {
		holding := q.Holding()
		waits := make(map[string]bool, len(q.Entries))
		for _, e := range q.Entries[holding:] {
			waits[e.ID] = true
		}
		for id, set := range q.waits {
			if !waits[id] {
				tellAll(set)
				delete(q.waits, id) // one event each, as a notification that is lost does not come again
			}
		}
	}
	if s := q.shape(now); s != q.seen {
		q.seen = s
		tellAll(q.watches)
	}
}

func tellAll(set map[*wait]bool) {
	for w := range set {
		w.tell()
	}
}

// arm sets the timer to the next expiry, or stops it when nobody waits.
func (q *queue) arm(now int64, expire func()) {
	at, ok := q.Next()
	if len(q.watches) > 0 {
		for i := range q.Entries {
			if e := &q.Entries[i]; e.Ends > now {
				at = min(at, e.Ends) // before Next, if the lock-delay begins then
			}
		}
	}
	switch {
	case !ok || len(q.waits) == 0 && len(q.watches) == 0:
		if q.timer != nil {
			q.timer.Stop()
		}
	case q.timer == nil:
		q.timer = time.AfterFunc(time.Duration(at-now)*time.Microsecond, expire)
	default:
		q.timer.Reset(time.Duration(at-now) * time.Microsecond)
	}
}
