package claims

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// Timers stand still while the machine sleeps. maxLook bounds how long, awake, a lease that ran out during the sleep goes
// unnoticed.
const maxLook = 500 * time.Millisecond

// A timekeeper schedules the goroutine that gives engines the time.
type timekeeper struct {
	next atomic.Int64 // its next look without a wake
	used atomic.Bool  // a name was minded since its last look
	kick chan struct{}
}

func (t *timekeeper) init() {
	t.next.Store(int64(engine.Never))
	t.kick = make(chan struct{}, 1)
}

// wake makes the timekeeper look by due. A caller that locks and unlocks in a loop need not wake it each time, since it goes
// on looking for a while.
func (t *timekeeper) wake(due, now engine.Time) {
	if !t.used.Load() {
		t.used.Store(true)
	}
	for {
		next := t.next.Load()
		if int64(due) >= next {
			return
		}
		if t.next.CompareAndSwap(next, int64(due)) {
			break
		}
	}
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// keepTime gives engines the time, until the keeper is closed. It never waits for a timer that is already due: with the race
// detector, two goroutines of one synctest bubble that do so crash the process (golang.org/issue/78156).
func (k *Keeper) keepTime() {
	timer := time.NewTimer(maxLook)
	defer timer.Stop()
	for {
		left := k.keepOnce()
		if left <= 0 && k.base.Err() == nil {
			continue
		}
		if left == engine.Never {
			timer.Stop()
		} else {
			timer.Reset(left)
		}
		select {
		case <-timer.C:
		case <-k.time.kick:
		case <-k.base.Done():
			return
		}
	}
}

// keepOnce gives the due engines the time, and returns how long until the next is due; engine.Never until wake is called.
func (k *Keeper) keepOnce() time.Duration {
	k.time.next.Store(int64(engine.Never)) // from here on a new alarm kicks
	used := k.time.used.Swap(false)
	next := k.tick()
	now := k.clock.now()
	if next != engine.Never || used {
		next = min(next, now+maxLook)
	}
	if k.yields.prune(now) {
		next = min(next, now+maxLook)
	}
	for {
		armed := k.time.next.Load()
		next = min(next, engine.Time(armed))
		if k.time.next.CompareAndSwap(armed, int64(next)) {
			break
		}
	}
	if next == engine.Never {
		return engine.Never
	}
	return next - now
}

// tick runs the due engines, and returns when the next one is due.
func (k *Keeper) tick() engine.Time {
	var t todo
	now := k.clock.now()
	for i := range k.shards {
		k.shards[i].tick(now, false, &t)
	}
	if len(t.extends) > 0 {
		for i := range k.shards { // renewals that are due a moment later go along
			k.shards[i].tick(now, true, &t)
		}
	}
	t.do()
	next := engine.Never
	for i := range k.shards {
		next = min(next, engine.Time(k.shards[i].next.Load()))
	}
	return next
}

// tick gives the time to the due engines of a shard; with early, also to engines with a renewal due soon.
func (s *shard) tick(now engine.Time, early bool, t *todo) {
	if !early && engine.Time(s.next.Load()) > now {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := s.agenda.First(); first != nil; first = s.agenda.First() {
		n := first
		soon := n.due.At() > now
		if soon && (!early || n.due.At() > now+n.slack()) {
			break
		}
		before := len(t.extends)
		n.enterEvent(now)
		n.engine.Tick(now)
		n.finishLocked(now, t)
		if n.due.At() <= now {
			break // an engine that is always due must not stop the others
		}
		if soon && len(t.extends) == before {
			break // its other work comes a moment later
		}
	}
}

// slack returns how early a renewal of the name may come.
func (n *name) slack() time.Duration {
	for _, at := range n.slots {
		if c := at.claim; c != nil {
			return protocol.Slack(c.terms.Load().TTL)
		}
	}
	return 0
}

func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most + 1)
}
