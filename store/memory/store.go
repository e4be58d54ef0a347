package memory

import (
	"cmp"
	"crypto/rand"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/table"
)

// A Store keeps queues in this process. Its drivers share it, as several processes would share a server.
//
// Leases are judged by the monotonic clock; under testing/synctest, by its clock. No goroutine runs while nobody waits.
type Store struct {
	id      string
	base    time.Time // its monotonic reading is 0 on the store's clock
	epoch   int64     // its wall reading in microseconds, which tickets add
	seed    maphash.Seed
	shards  [shards]shard // by the hash of the name, so that different names rarely wait for one mutex
	alerted sync.Map      // *Driver: func(id, record string) (alert func()), of drivers with alerts
}

const shards = 16

// A shard is a part of the names.
type shard struct {
	mu      sync.Mutex // guards the fields below; nothing blocks under it
	queues  table.Table[queue, *queue]
	sweepAt int      // how many queues there may be before a sweep
	spare   []*queue // forgotten, empty queues, for new names
}

// A queue is the claims of one name and their audience.
type queue struct {
	driver.Queue
	*audience // nil before anybody waits, as for most names

	name string
	hash uint64 // of the name, in its shard
}

// Name makes a queue an element of a table.
func (q *queue) Name() string { return q.name }

// Hash makes a queue an element of a table.
func (q *queue) Hash() uint64 { return q.hash }

// An audience is the waits and watches for a change of a queue.
type audience struct {
	waits   map[string]map[*wait]bool // by claim
	watches map[*wait]bool
	amended int         // how often a claim was amended
	seen    shape       // the last state that the watches got, while there are any
	timer   *time.Timer // set to the next expiry while anyone waits; nil before the first wait
}

// A wait is notified through a channel that has room for one event, so that a notification never blocks.
type wait struct{ event chan struct{} }

func newWait() *wait { return &wait{event: make(chan struct{}, 1)} }

func (w *wait) tell() {
	select {
	case w.event <- struct{}{}:
	default: // notified already, and not read yet
	}
}

// NewStore returns an empty store.
func NewStore() *Store {
	base := time.Now()
	return &Store{id: rand.Text(), base: base, epoch: base.UnixMicro(), seed: maphash.MakeSeed()}
}

// Driver connects one more client to the store.
func (s *Store) Driver() *Driver {
	return &Driver{store: s, done: make(chan struct{})}
}

// heard informs all clients that a claim is being broken, before its waiter wakes and finds it gone: a claim that is gone
// for no known reason would enter again. It returns their alerts, to be called when the queue is free. Each client knows
// whether the claim is its own.
func (s *Store) heard(id, record string) (alerts []func()) {
	for _, alertOf := range s.alerted.Range {
		alerts = append(alerts, alertOf.(func(id, record string) func())(id, record))
	}
	return alerts
}

// now returns the store's clock in microseconds. A ticket's stamp is base's wall time plus now, so it never runs back.
func (s *Store) now() int64 { return time.Since(s.base).Microseconds() }

func (s *Store) stamp(now int64) int64 { return s.epoch + now }

// do runs f on the queue of a name, then sends the notifications.
func (s *Store) do(name string, f func(q *queue, now int64)) {
	hash := maphash.String(s.seed, name)
	part := &s.shards[hash%shards]
	part.mu.Lock()
	defer part.mu.Unlock()
	now := s.now()
	q := part.queues.Get(name, hash/shards)
	if q == nil {
		q = part.add(name, hash/shards, s, now)
	}
	claims, last := len(q.Entries), q.Last
	f(q, now)
	if q.Last != last {
		claims++
	}
	q.tell(now, q.Wake(now), len(q.Entries) < claims)
	q.arm(now, s, name)
	if s.idle(q, now) {
		part.forget(q)
	}
}

// idle reports whether a queue may be forgotten: it is empty, nobody waits, and the next stamp is above its last ticket.
func (s *Store) idle(q *queue, now int64) bool {
	return len(q.Entries) == 0 && q.unheard() && q.Last < s.stamp(now)
}

const (
	minSweep  = 8 // queues of a shard
	maxSpare  = 8 // queues of a shard that are kept for new names
	longSpare = 8 // entries that such a queue may have room for
)

// add makes a queue for a name that has none.
func (p *shard) add(name string, hash uint64, s *Store, now int64) *queue {
	p.sweep(s, now)
	var q *queue
	if last := len(p.spare) - 1; last >= 0 {
		q, p.spare = p.spare[last], p.spare[:last]
	} else {
		q = &queue{}
	}
	q.name, q.hash = name, hash
	p.queues.Add(q, hash)
	return q
}

// forget removes an idle queue. It is kept for a new name, so that a lock that is taken and released repeatedly leaves no
// garbage.
func (p *shard) forget(q *queue) {
	p.queues.Remove(q)
	if len(p.spare) == maxSpare || cap(q.Entries) > longSpare {
		return
	}
	*q = queue{Queue: driver.Queue{Entries: q.Entries}} // its timer, if any, is stopped, and was for this name
	p.spare = append(p.spare, q)
}

// sweep forgets idle queues that no call has touched since they became empty. It runs whenever their number has doubled, so
// its cost is spread over the calls that made them.
func (p *shard) sweep(s *Store, now int64) {
	if p.queues.Len() < max(minSweep, p.sweepAt) {
		return
	}
	for _, q := range p.queues.All() {
		if q.unheard() {
			q.Expire(now)
		}
		if s.idle(q, now) {
			p.forget(q)
		}
	}
	p.sweepAt = 2 * p.queues.Len()
}

// list returns the queues that a query selects, all in their state at one moment.
func (s *Store) list(query *driver.Query) []driver.Listing {
	if query.Name != "" {
		return s.show(query.Name)
	}
	for i := range s.shards { // nobody else locks two of them, so the order does not matter
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	now := s.now()
	var all []driver.Listing
	for i := range s.shards {
		for _, q := range s.shards[i].queues.All() {
			if strings.HasPrefix(q.name, query.Prefix) {
				all = append(all, q.listing(now)...)
			}
		}
	}
	slices.SortFunc(all, func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// show returns the queue of one name, and reads no other.
func (s *Store) show(name string) []driver.Listing {
	hash := maphash.String(s.seed, name)
	part := &s.shards[hash%shards]
	part.mu.Lock()
	defer part.mu.Unlock()
	if q := part.queues.Get(name, hash/shards); q != nil {
		return q.listing(s.now())
	}
	return nil
}

// listing returns the queue, unless it has no claims.
func (q *queue) listing(now int64) []driver.Listing {
	claims := q.List(now)
	if len(claims) == 0 {
		return nil
	}
	return []driver.Listing{{Name: q.name, Capacity: q.Capacity, Claims: claims}}
}

// A shape differs whenever claims entered, left, are kept, were amended, or ran out.
type shape struct {
	last                           int64
	entries, kept, ranOut, amended int
}

func (q *queue) shape(now int64) shape {
	s := shape{last: q.Last, entries: len(q.Entries), amended: q.amended}
	for i := range q.Entries {
		switch e := &q.Entries[i]; {
		case e.Left:
			s.kept++
		case e.Ends <= now: // only its lock-delay is left
			s.ranOut++
		}
	}
	return s
}

// unheard reports whether nobody waits for a change of the queue.
func (q *queue) unheard() bool { return q.audience == nil || len(q.waits) == 0 && len(q.watches) == 0 }

// listen readies the queue for a waiter.
func (q *queue) listen() {
	if q.audience == nil {
		q.audience = &audience{waits: map[string]map[*wait]bool{}}
	}
}

// await notifies a wait when its claim holds or is gone, until the wait leaves.
func (q *queue) await(id string, w *wait) {
	q.listen()
	if q.waits[id] == nil {
		q.waits[id] = map[*wait]bool{}
	}
	q.waits[id][w] = true
}

// change notifies all watches that a claim was amended.
func (q *queue) change() {
	if q.audience != nil {
		q.amended++
	}
}

// leave ends the notifications of a wait. The queue may have been forgotten since.
func (q *queue) leave(id string, w *wait) {
	if q.audience == nil {
		return
	}
	delete(q.watches, w)
	delete(q.waits[id], w)
	if len(q.waits[id]) == 0 {
		delete(q.waits, id)
	}
}

// watch notifies a wait of every change from now on, until the wait leaves.
func (q *queue) watch(w *wait, now int64) {
	q.listen()
	if len(q.watches) == 0 {
		q.watches, q.seen = map[*wait]bool{}, q.shape(now)
	}
	q.watches[w] = true
}

// tell notifies the waits for claims that hold or are gone, and all watches if the queue has changed. Woken are claims that
// hold now, and fewer says that some are gone: only then all waits are looked at.
func (q *queue) tell(now int64, woken []driver.Entry, fewer bool) {
	if q.unheard() {
		return
	}
	for i := range woken {
		q.tellWaits(woken[i].ID)
	}
	if fewer && len(q.waits) > 0 {
		q.tellGone()
	}
	if len(q.watches) == 0 {
		return
	}
	if s := q.shape(now); s != q.seen {
		q.seen = s
		tellAll(q.watches)
	}
}

// tellWaits notifies the waits for a claim: one event each, since a lost notification is not repeated.
func (q *queue) tellWaits(id string) {
	tellAll(q.waits[id])
	delete(q.waits, id)
}

// tellGone notifies the waits for claims that no longer wait. Such a claim is gone, or its own call found that it holds.
func (q *queue) tellGone() {
	waiting, expected := q.Entries[q.Holding():], len(q.waits)
	for i := range waiting {
		if q.waits[waiting[i].ID] != nil {
			expected--
		}
	}
	if expected == 0 {
		return // all of them go on waiting, as after most changes
	}
	waits := make(map[string]bool, len(waiting))
	for i := range waiting {
		waits[waiting[i].ID] = true
	}
	for id := range q.waits {
		if !waits[id] {
			q.tellWaits(id)
		}
	}
}

func tellAll(set map[*wait]bool) {
	for w := range set {
		w.tell()
	}
}

// arm sets the timer to the next expiry, or stops it when nobody waits.
func (q *queue) arm(now int64, s *Store, name string) {
	if q.unheard() {
		q.disarm()
		return
	}
	at := q.Soon()
	if at == 0 {
		q.disarm()
		return
	}
	if len(q.watches) > 0 {
		for i := range q.Entries {
			if e := &q.Entries[i]; e.Ends > now {
				at = min(at, e.Ends) // earlier than Next, if the lock-delay begins then
			}
		}
	}
	if length := time.Duration(at-now) * time.Microsecond; q.timer == nil {
		q.timer = time.AfterFunc(length, func() { s.do(name, func(*queue, int64) {}) })
	} else {
		q.timer.Reset(length)
	}
}

func (q *queue) disarm() {
	if q.audience != nil && q.timer != nil {
		q.timer.Stop()
	}
}
