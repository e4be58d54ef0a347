package claims

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// A claim that came to hold by another's leaving has a waiter's short lease. Most sections are over before this.
	handOverRenewal = 20 * time.Millisecond

	// Timers stand still while the machine sleeps. Looking at the clock this often, awake, bounds how late a lease that
	// ran out during the sleep is found out.
	renewerLook = 500 * time.Millisecond

	// More claims than this are renewed by several calls.
	renewBatch = 256
)

// trusted returns until when a lease is trusted that the store confirmed: counted from before the request was sent,
// since the store began it at some moment after that, and less what two clocks may drift apart (Gray and Cheriton,
// SOSP 1989).
func (k *Keeper) trusted(sent, ttl time.Duration) time.Duration {
	margin := k.conf.Margin
	if margin == 0 {
		margin = min(ttl/10, time.Second)
	}
	return sent + ttl - time.Duration(2*k.conf.Drift*float64(ttl)) - k.traits.Granularity - min(margin, ttl/2)
}

// ghost returns when a claim that may stand in the store has run out, if it entered by now.
func (k *Keeper) ghost(claim *driver.Claim) time.Time {
	ttl := max(claim.TTL, claim.Wait)
	return time.Now().Add(ttl + time.Duration(2*k.conf.Drift*float64(ttl)) + k.traits.Granularity)
}

// confirm notes that the store confirmed a lease of this length, by a request sent then.
func (s *seat) confirm(sent, ttl time.Duration) {
	k := s.k
	s.deadline = max(s.deadline, k.trusted(sent, ttl))
	s.asleep = k.clock.asleep.Load()
	s.failure = nil
	third := min(s.claim.TTL, ttl) / 3
	s.renewAt = sent + third - rand.N(third/10+1)
	if s.alerted {
		s.alerted, s.renewAt = false, sent
	}
}

// endangered has claims renewed at once, as a driver that saw them in danger asks for.
func (k *Keeper) endangered(ids ...string) {
	in := make(map[string]bool, len(ids))
	for _, id := range ids {
		in[id] = true
	}
	k.mu.Lock()
	defer k.unlock()
	for _, g := range k.gates {
		if s := g.asking; s != nil && in[s.claim.ID] {
			s.alerted = true // it may hold already, by an answer that is on its way
		}
	}
	for _, s := range slices.Clone(k.renewals.heap) {
		switch {
		case !in[s.claim.ID]:
		case s.renewing != nil:
			s.alerted = true // the renewal under way may have come too early to see it
		default:
			s.renewAt = k.clock.now()
			k.renewals.fix(s)
		}
	}
}

// A renewer has the seats that the one renewing goroutine looks after, in the order in which they need it. It is
// guarded by the keeper's mu.
type renewer struct {
	heap seatHeap
	next time.Duration // when the goroutine will look of itself
	used bool          // a seat was put in since it looked
	kick chan struct{} // has room for one
}

// fix puts a seat where its needs say.
func (r *renewer) fix(s *seat) {
	s.due = min(s.deadline, s.turnWatch())
	if s.renewing == nil && !s.frozen {
		s.due = min(s.due, s.renewAt)
	}
	if s.linger > 0 {
		s.due = min(s.due, s.linger)
	}
	for _, h := range s.holds {
		if h.until != 0 && h.over == nil {
			s.due = min(s.due, h.until)
		}
	}
	if s.index < 0 {
		heap.Push(&r.heap, s)
	} else {
		heap.Fix(&r.heap, s.index)
	}
	r.used = true
	if s.due < r.next {
		r.next = s.due
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

// turnWatch returns when a line that waits for turns on the claim has to ask for one of its own.
func (s *seat) turnWatch() time.Duration {
	if s.watched && s.gate.now == s {
		return s.turnEnd
	}
	return s.deadline
}

func (r *renewer) remove(s *seat) {
	if s.index >= 0 {
		heap.Remove(&r.heap, s.index)
	}
}

// run renews, and ends what is over, until the keeper is closed.
func (k *Keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.renewals.kick:
		case <-k.base.Done():
			return
		}
		k.mu.Lock()
		batches := k.collect(k.clock.now())
		r := &k.renewals
		now := k.clock.now()
		r.next = never
		// Who locks and unlocks in a loop does not have to wake the goroutine each time: it looks for a while longer.
		if r.used {
			r.next = now + renewerLook
		}
		if len(r.heap) > 0 {
			r.next = min(r.heap[0].due, now+renewerLook)
		}
		r.used = false
		if r.next != never {
			timer.Reset(max(0, r.next-now))
		}
		k.unlock()
		for _, b := range batches {
			k.work.Go(func() { k.renew(b) })
		}
	}
}

const never = time.Duration(1<<63 - 1)

// collect does what is due and returns the claims to renew, in batches. A batch has claims of one ttl, since they share
// a time limit; claims that failed last time are tried apart from those that did not.
func (k *Keeper) collect(now time.Duration) [][]*seat {
	type kind struct {
		ttl    time.Duration
		failed bool
	}
	var (
		open    = map[kind]int{}
		batches [][]*seat
	)
	for len(k.renewals.heap) > 0 {
		s := k.renewals.heap[0]
		if s.due > now && (len(batches) == 0 || s.due > now+s.claim.TTL/60) { // what is due in a moment goes along
			break
		}
		s.attend(now)
		if s.index < 0 {
			continue
		}
		if s.renewing == nil && !s.frozen && s.renewAt <= now+s.claim.TTL/60 {
			s.renewing = make(chan struct{})
			like := kind{s.claim.TTL, s.failure != nil}
			i, ok := open[like]
			if !ok || len(batches[i]) == renewBatch {
				i = len(batches)
				open[like] = i
				batches = append(batches, nil)
			}
			batches[i] = append(batches[i], s)
		}
		k.renewals.fix(s)
		if s.due <= now+s.claim.TTL/60 && s.due > now {
			break // it is the first, and comes a moment later
		}
	}
	return batches
}

// attend ends what is over on a claim: its lease, a hold that was too long, its lingering, its turns.
func (s *seat) attend(now time.Duration) {
	if now >= s.deadline {
		s.lose(Expired, now)
		return
	}
	for _, h := range s.holds {
		h.look(now)
	}
	if len(s.holds) == 0 && s.linger > 0 && now >= s.linger {
		s.retire()
		return
	}
	if s.gate.now == s && now >= s.turnEnd {
		s.gate.move(now)
	}
}

// renew has the store renew a batch.
func (k *Keeper) renew(batch []*seat) {
	sent := k.clock.now()
	limit := batch[0].claim.TTL / 6
	claims := make([]*driver.Claim, len(batch))
	k.mu.Lock()
	for i, s := range batch {
		claims[i] = &s.claim
		limit = min(limit, s.deadline-sent)
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.base, max(limit, time.Millisecond))
	results := k.d.Renew(ctx, claims)
	cancel()
	k.mu.Lock()
	defer k.unlock()
	now := k.clock.now()
	for i, s := range batch {
		close(s.renewing)
		s.renewing = nil
		if s.stage == held {
			s.renewed(sent, now, results[i])
		}
	}
}

// renewed takes the store's answer to a renewal. An answer that never came changes nothing but what we know.
func (s *seat) renewed(sent, now time.Duration, r driver.Renewal) {
	k := s.k
	switch {
	case r.Err == nil:
		margin := s.deadline - now
		if margin <= 0 {
			s.lose(Expired, now) // too late: whoever looked at the clock has been told so
			return
		}
		s.confirm(sent, r.TTL)
		if k.conf.Observe != nil {
			k.tell(Event{Kind: Renewed, Name: s.claim.Name, Token: s.claim.Ticket * Turns, Margin: margin})
		}
	case errors.Is(r.Err, driver.ErrGone):
		s.lose(goneFor(r.Err), now)
		return
	default:
		first := s.failure == nil
		s.failure = r.Err
		s.renewAt = now + s.claim.TTL/24 + rand.N(s.claim.TTL/24+1)
		if first {
			for _, h := range s.holds {
				if h.over == nil {
					k.tell(Event{Kind: Jeopardized, Name: s.claim.Name, Token: h.token, Margin: s.deadline - now, Err: r.Err})
				}
			}
			s.gate.move(now)
		}
	}
	k.renewals.fix(s)
}

// A seatHeap is a heap of seats by due.
type seatHeap []*seat

func (h seatHeap) Len() int           { return len(h) }
func (h seatHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h seatHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for package heap.
func (h *seatHeap) Push(x any) {
	s := x.(*seat)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop is for package heap.
func (h *seatHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.index = -1
	return s
}
