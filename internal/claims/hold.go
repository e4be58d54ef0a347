package claims

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/record"
)

// A Hold is one turn on a claim, or room for one that a goroutine waits for. It has one share or more, and is over when
// all are given back, or when it is lost.
type Hold struct {
	c      *claim
	token  int64
	slot   engine.Slot
	shares int32         // not given back
	answer chan struct{} // the hold's waiter waits here, and later whoever gives the last share back; nil if nobody waits
	first  Share
	rare   atomic.Pointer[rare] // what few holds need; nil until then
}

// A rare has the fields that few holds need.
type rare struct {
	until  engine.Time // the end by MaxHold, or never; set once, before anybody has the hold
	others []*Share    // given out by Share, and not back yet
	change *change     // of its claim, while one is under way
	under  []*Share    // the locks that the waiting caller has already, until the hold begins
	failed error       // the answer to the waiter, or to whoever gives the last share back, if it is an error
}

// A Share is one owner's part of a hold.
type Share struct {
	hold *Hold
	over atomic.Pointer[ending] // set once; nil while the share can be trusted until its deadline
	ends *whenOver              // guarded by the shard's mu
}

// An ending is why a share is over.
type ending struct {
	err   error
	given bool // the share was given back; guarded by the shard's mu
}

var released = &ending{ErrReleased, true}

// A whenOver is a function that is called with the reason when a share is over, and those that were named before it.
type whenOver struct {
	f    func(error)
	next *whenOver
}

// begin fills a hold with the engine's grant. It was allocated before, since others wait for the shard's mutex now.
func (n *name) begin(h *Hold, slot engine.Slot) *Share {
	at, token, until := n.engine.Turn(slot)
	h.c, h.slot, h.token, h.shares, h.first.hold = n.claimAt(at), slot, token, 1, h
	if until != engine.Never {
		h.rare.Store(&rare{until: until})
	} else if h.rare.Load() != nil {
		h.rare.Store(nil) // what its caller had
	}
	n.at(slot).turn = h
	return &h.first
}

// rareLocked returns room for what few holds need.
func (h *Hold) rareLocked() *rare {
	r := h.rare.Load()
	if r == nil {
		r = &rare{until: engine.Never}
		h.rare.Store(r)
	}
	return r
}

// failure is the answer to the hold's waiter, or to whoever gave its last share back. It is read once the answer has
// come.
func (h *Hold) failure() error {
	if r := h.rare.Load(); r != nil {
		return r.failed
	}
	return nil
}

// until is when MaxHold ends the hold, or never.
func (h *Hold) until() engine.Time {
	if r := h.rare.Load(); r != nil {
		return r.until
	}
	return engine.Never
}

// within returns the terms of a claim that enters for the hold's waiter: its record has the caller's other locks.
// Other goroutines that come to wait for the same claim are not in its record.
func (h *Hold) within(t *protocol.Terms) *protocol.Terms {
	r := h.rare.Load()
	if r == nil || len(r.under) == 0 {
		return t
	}
	held := make([]record.Held, len(r.under))
	for i, s := range r.under {
		held[i] = record.Held{Name: s.Name(), Ticket: s.Ticket() - s.Ticket()%engine.Turns}
	}
	with := *t
	with.Record = record.Within(t.Record, held)
	return &with
}

// Name is the name that is held.
func (s *Share) Name() string { return s.hold.c.name }

// Terms returns the terms of the hold's claim. A writer that is to become a reader counts as one.
func (s *Share) Terms() *protocol.Terms {
	is := s.hold.c.terms.Load()
	if s.hold.c.lighter.Load() && is.Weight != 1 {
		reader := *is
		reader.Weight = 1
		return &reader
	}
	return is
}

// In reports whether the share is of a hold that this keeper keeps.
func (s *Share) In(k *Keeper) bool { return s.hold.c.n.shard.k == k }

// Traits returns the store's traits.
func (s *Share) Traits() *driver.Traits { return &s.hold.c.n.shard.k.traits }

// Token is its fencing token, or 0 if the store has no fencing.
func (s *Share) Token() int64 {
	if !s.hold.c.fenced.Load() {
		return 0
	}
	return s.hold.token
}

// Ticket is the number of its grant.
func (s *Share) Ticket() int64 { return s.hold.token }

// MaxHold returns for how long the hold may go on by its MaxHold, or 0 if it has none.
func (s *Share) MaxHold() time.Duration {
	until := s.hold.until()
	if until == engine.Never {
		return 0
	}
	return max(1, until-s.hold.c.n.shard.k.clock.now())
}

// Check returns nil while the share can be trusted, by a look at the clock; else why it is over. It takes no lock unless
// the deadline has come.
func (s *Share) Check() error {
	if o := s.over.Load(); o != nil {
		return o.err
	}
	h := s.hold
	if now := h.c.n.shard.k.clock.now(); now < engine.Time(h.c.deadline.Load()) && now < h.until() {
		return nil
	}
	return s.endExpired()
}

// endExpired ends holds whose time is over.
func (s *Share) endExpired() error {
	n := s.hold.c.n
	n.shard.mu.Lock()
	if s.over.Load() == nil && n.slots[s.hold.slot].turn == s.hold {
		now := n.enterEvent(n.shard.k.clock.now())
		n.engine.Tick(now)
		var t todo
		n.finishLocked(now, &t)
		n.shard.mu.Unlock()
		t.do()
	} else {
		n.shard.mu.Unlock()
	}
	if o := s.over.Load(); o != nil {
		return o.err
	}
	return nil
}

// Left returns for how long the share can be trusted if it is not renewed any more, and whether the last renewal failed.
// A share that is over has nothing left.
func (s *Share) Left() (left time.Duration, jeopardy bool) {
	if s.Check() != nil {
		return 0, false
	}
	h := s.hold
	end := min(engine.Time(h.c.deadline.Load()), h.until())
	return max(0, end-h.c.n.shard.k.clock.recent()), h.c.jeopardy.Load()
}

// WhenOver calls f with the reason when the share is over, at once if it is.
func (s *Share) WhenOver(f func(error)) {
	mu := &s.hold.c.n.shard.mu
	mu.Lock()
	o := s.over.Load()
	if o == nil {
		s.ends = &whenOver{f, s.ends}
	}
	mu.Unlock()
	if o != nil {
		f(o.err)
	}
}

// Share makes another share of the hold. The error is why this one is over.
func (s *Share) Share() (*Share, error) {
	h := s.hold
	n := h.c.n
	n.shard.mu.Lock()
	var (
		other *Share
		t     todo
	)
	if s.over.Load() == nil {
		now := n.enterEvent(n.shard.k.clock.now())
		if n.engine.Share(now, h.slot) {
			other = &Share{hold: h}
			h.rareLocked().others = append(h.rareLocked().others, other)
			h.shares++
		}
		n.finishLocked(now, &t)
	}
	n.shard.mu.Unlock()
	t.do()
	if other == nil {
		return nil, s.over.Load().err
	}
	return other, nil
}

// liveLocked reports whether a share of the hold is not over.
func (h *Hold) liveLocked() bool {
	if h.first.over.Load() == nil {
		return true
	}
	r := h.rare.Load()
	return r != nil && slices.ContainsFunc(r.others, func(s *Share) bool { return s.over.Load() == nil })
}

// endLocked makes all shares of a hold over that are not.
func (h *Hold) endLocked(err error, t *todo) {
	h.first.endLocked(err, t)
	if r := h.rare.Load(); r != nil {
		for _, s := range r.others {
			s.endLocked(err, t)
		}
	}
}

func (s *Share) endLocked(err error, t *todo) {
	if s.over.Load() != nil {
		return
	}
	if err == ErrReleased { //nolint:errorlint // the very one
		s.over.Store(released)
	} else {
		s.over.Store(&ending{err: err})
	}
	// Nobody is told before.
	if s.ends != nil {
		t.ended = append(t.ended, ended{s.ends, err})
		s.ends = nil
	}
}

// Release gives the share back. With the last the turn ends, and the claim is handed on, lingers, or leaves the
// store, which keeps the lock taken for the given time after. The error is a [*Lost] if the hold was lost before; an
// [*Unknown] if the store did not answer; ErrReleased if it was given back before.
func (s *Share) Release(keep time.Duration) error {
	h := s.hold
	n := h.c.n
	n.shard.lock(h.c.terms.Load())
	s.stepAsideLocked()
	lost := s.over.Load()
	if lost != nil && lost.given { // or detached
		n.shard.mu.Unlock()
		return ErrReleased
	}
	now := n.enterEvent(n.shard.k.clock.recent())
	code := n.engine.Release(now, h.slot, keep)
	if code == protocol.OK && n.engine.Still() && lost == nil && s.ends == nil && h.rare.Load() == nil {
		// Mostly a turn just ends, and the claim lingers.
		s.over.Store(released)
		h.forget(s, false)
		n.mind(now)
		n.shard.mu.Unlock()
		return nil
	}
	t := todo{of: h}
	n.finishLocked(now, &t)
	if lost = s.over.Load(); lost != nil {
		lost.given = true
	} else {
		s.endLocked(ErrReleased, &t)
	}
	h.forget(s, code == protocol.Pending && lost == nil)
	n.shard.mu.Unlock()
	if lost != nil {
		t.do()
		return lost.err
	}
	if code != protocol.Pending {
		t.do()
		return nil
	}
	if !n.first(&t, nil) { // the first request is Leave: the line's next claim is asked for after it
		<-h.answer
	}
	n.shard.k.answered(h)
	return h.failure()
}

// stepAsideLocked lets readers go first who want a name just now, if the claim would otherwise leave the store and
// enter again for them. The shard's mutex is free for a moment then.
func (s *Share) stepAsideLocked() {
	n := s.hold.c.n
	if n.shard.coming.Load() > 0 && s.over.Load() == nil && n.engine.Closes(s.hold.slot) {
		n.shard.mu.Unlock()
		runtime.Gosched()
		n.shard.mu.Lock()
	}
}

// Beside returns how many shares of its hold are minded: this one and the others that are not given back.
func (s *Share) Beside() (n int) {
	h := s.hold
	mu := &h.c.n.shard.mu
	mu.Lock()
	defer mu.Unlock()
	if h.first.over.Load() == nil {
		n++
	}
	if r := h.rare.Load(); r != nil {
		n += len(r.others)
	}
	return n
}

// forget drops a share that was given back. With pending, its answer is still to come.
func (h *Hold) forget(s *Share, pending bool) {
	h.shares--
	if n := h.c.n; h.shares == 0 && !pending && n.slots[h.slot].turn == h {
		n.slots[h.slot].turn = nil
	}
	r := h.rare.Load()
	if r == nil {
		return
	}
	if i := slices.Index(r.others, s); i >= 0 {
		r.others = slices.Delete(r.others, i, i+1)
	}
}

// Release gives shares back at the same time, so that a store that does not answer costs Patience once. It returns the
// first error, and whose it is.
func Release(shares []*Share, keep time.Duration) (failed int, err error) {
	errs := make([]error, len(shares))
	var all sync.WaitGroup
	for i, s := range shares {
		all.Go(func() { errs[i] = s.Release(keep) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}
