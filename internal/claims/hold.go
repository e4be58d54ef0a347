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

// A Hold is one turn on a claim, or room for the turn of a waiting goroutine. It has one or more shares. It is over when all
// shares are given back, or when it is lost.
type Hold struct {
	c      *claim
	token  int64
	slot   engine.Slot
	shares int32         // not given back
	answer chan struct{} // for the hold's waiter, and later for the releaser of its last share; nil if nobody waits
	first  Share
	rare   atomic.Pointer[rare] // fields that few holds need; nil until then
}

// A rare has the fields that few holds need.
type rare struct {
	until  engine.Time // the end by MaxHold, or never; set once, before the hold is handed out
	others []*Share    // made by Share, and not given back
	change *change     // of its claim, while under way
	under  []*Share    // the locks that the waiting caller already has, until the hold begins
	failed error       // the error for the waiter, or for the releaser of the last share; nil for success
}

// A Share is one owner's part of a hold.
type Share struct {
	hold *Hold
	over atomic.Pointer[ending] // set once; nil while the share can be trusted until its deadline
	ends *whenOver              // guarded by the shard's mu
}

// An ending is the reason why a share is over.
type ending struct {
	err   error
	given bool // the share was given back; guarded by the shard's mu
}

var released = &ending{ErrReleased, true}

// A whenOver is a function to call with the reason when a share is over, in a list with the functions before it.
type whenOver struct {
	f    func(error)
	next *whenOver
}

// begin fills a hold with the engine's grant. The hold was allocated before the shard's mutex was taken, since others wait
// for the mutex.
func (n *name) begin(h *Hold, slot engine.Slot) *Share {
	at, token, until := n.engine.Turn(slot)
	h.c, h.slot, h.token, h.shares, h.first.hold = n.claimAt(at), slot, token, 1, h
	if until != engine.Never {
		h.rare.Store(&rare{until: until})
	} else if h.rare.Load() != nil {
		h.rare.Store(nil) // its caller's locks
	}
	n.at(slot).turn = h
	return &h.first
}

// rareLocked returns the hold's rare fields, allocated on first use.
func (h *Hold) rareLocked() *rare {
	r := h.rare.Load()
	if r == nil {
		r = &rare{until: engine.Never}
		h.rare.Store(r)
	}
	return r
}

// failure returns the answer to the hold's waiter, or to the releaser of its last share. It may be read only after the
// answer.
func (h *Hold) failure() error {
	if r := h.rare.Load(); r != nil {
		return r.failed
	}
	return nil
}

// until returns when MaxHold ends the hold, or never.
func (h *Hold) until() engine.Time {
	if r := h.rare.Load(); r != nil {
		return r.until
	}
	return engine.Never
}

// within returns the terms of a claim that enters for the hold's waiter: its record names the caller's other locks. Other
// goroutines that join the wait are not in the record.
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

// Name returns the name of the lock.
func (s *Share) Name() string { return s.hold.c.name }

// Terms returns the terms of the hold's claim. A writer under Downgrade counts as a reader.
func (s *Share) Terms() *protocol.Terms {
	is := s.hold.c.terms.Load()
	if s.hold.c.lighter.Load() && is.Weight != 1 {
		reader := *is
		reader.Weight = 1
		return &reader
	}
	return is
}

// In reports whether the share belongs to this keeper.
func (s *Share) In(k *Keeper) bool { return s.hold.c.n.shard.k == k }

// Traits returns the store's traits.
func (s *Share) Traits() *driver.Traits { return &s.hold.c.n.shard.k.traits }

// Token returns the fencing token, or 0 if the store has no fencing.
func (s *Share) Token() int64 {
	if !s.hold.c.fenced.Load() {
		return 0
	}
	return s.hold.token
}

// Ticket returns the number of the grant.
func (s *Share) Ticket() int64 { return s.hold.token }

// MaxHold returns how much longer MaxHold lets the hold last, or 0 without MaxHold.
func (s *Share) MaxHold() time.Duration {
	until := s.hold.until()
	if until == engine.Never {
		return 0
	}
	return max(1, until-s.hold.c.n.shard.k.clock.now())
}

// Check returns nil while the share can be trusted, else the reason why it is over. It only reads the clock and takes no
// lock before the deadline.
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

// endExpired ends holds past their deadline.
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

// Left returns how long the share can be trusted without another renewal, and whether the last renewal failed. A share that
// is over has no time left.
func (s *Share) Left() (left time.Duration, jeopardy bool) {
	if s.Check() != nil {
		return 0, false
	}
	h := s.hold
	end := min(engine.Time(h.c.deadline.Load()), h.until())
	return max(0, end-h.c.n.shard.k.clock.recent()), h.c.jeopardy.Load()
}

// WhenOver calls f with the reason when the share is over; at once if it already is.
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

// Share makes another share of the hold. If this share is over, the error is the reason.
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

// liveLocked reports whether the hold has a share that is not over.
func (h *Hold) liveLocked() bool {
	if h.first.over.Load() == nil {
		return true
	}
	r := h.rare.Load()
	return r != nil && slices.ContainsFunc(r.others, func(s *Share) bool { return s.over.Load() == nil })
}

// endLocked ends all shares of a hold that are not over.
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
	// Nobody is notified earlier.
	if s.ends != nil {
		t.ended = append(t.ended, ended{s.ends, err})
		s.ends = nil
	}
}

// Release gives the share back. With the last share the turn ends, and the claim is handed on, lingers, or leaves the store,
// which then keeps the lock taken for keep. The error is a [*Lost] if the hold was lost before, an [*Unknown] if the store
// did not answer, or ErrReleased if the share was already given back.
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
		// Usually a turn just ends, and the claim lingers.
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
	if !n.first(&t, nil) { // the first request is Leave; the line's next claim enters after it
		<-h.answer
	}
	n.shard.k.answered(h)
	return h.failure()
}

// stepAsideLocked lets readers of the name go first if they come just now, since otherwise the claim would leave the store
// and enter again for them. The shard's mutex is free for a moment.
func (s *Share) stepAsideLocked() {
	n := s.hold.c.n
	if n.shard.coming.Load() > 0 && s.over.Load() == nil && n.engine.Closes(s.hold.slot) {
		n.shard.mu.Unlock()
		runtime.Gosched()
		n.shard.mu.Lock()
	}
}

// Beside returns how many shares the hold has that are not given back, with this one.
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

// forget removes a share that was given back. With pending, its answer is still to come.
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

// Release gives shares back at the same time, so that a store without answers costs Patience only once. It returns the first
// error, and the index of its share.
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
