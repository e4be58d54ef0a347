package claims

import (
	"context"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Want is the request of one goroutine.
type Want struct {
	Name string
	*protocol.Terms
	protocol.Want
	place place
}

// Place looks up once where a name is kept, for a Want that is used many times.
func (k *Keeper) Place(w *Want) { w.place = k.place(w.Name) }

// channel returns a channel for the engine's answer to a goroutine.
func (k *Keeper) channel() chan struct{} {
	if c, ok := k.channels.Get().(chan struct{}); ok {
		return c
	}
	return make(chan struct{}, 1)
}

// told is the channel of a hold whose answer came before its goroutine waited: usually that goroutine ran the request
// itself.
var told = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// expectLocked makes a channel for the answer to a hold, unless the answer has come.
func (k *Keeper) expectLocked(h *Hold) {
	if h.answer == nil {
		h.answer = k.channel()
	}
}

// answered takes back a hold's channel after the answer, or if no answer will come.
func (k *Keeper) answered(h *Hold) {
	if h.answer != told {
		k.channels.Put(h.answer)
	}
	h.answer = nil
}

// Acquire takes a turn, or waits for one until ctx ends; then the error is a [*GaveUp]. A try does not wait: if it would
// have to, the error is a [*Held]. The claim's record names the locks that the caller already has, so that people can see
// who waits for whom.
func (k *Keeper) Acquire(ctx context.Context, want *Want, try bool, has ...*Share) (*Share, error) {
	at := want.place
	if at.shard == nil {
		at = k.place(want.Name)
	}
	s := at.shard
	h := new(Hold)
	s.come(want.Terms)
	if s.closed {
		s.mu.Unlock()
		return nil, driver.ErrClosed
	}
	n := at.name(want.Name)
	now := n.enterEvent(k.clock.recent())
	asks, ttl := want.Want, want.TTL // copied, so that a waiter does not keep want in memory
	asks.Try = try
	hold, slot := n.engine.Want(now, want.Terms, asks)
	if hold != engine.None {
		share := n.begin(h, hold)
		n.finishOwn(now)
		return share, nil
	}
	if len(has) > 0 {
		h.rareLocked().under = has
	}
	n.at(slot).turn = h
	// Usually the lock is free, and waking a goroutine twice costs a good part of a round trip: so the first request runs here.
	if !n.finishFirst(now, h, ctx) && !h.await(ctx) {
		return nil, k.dated(k.giveUp(ctx, n, slot, h), ttl)
	}
	k.answered(h)
	if err := h.failure(); err != nil {
		return nil, k.dated(err, ttl)
	}
	return &h.first, nil
}

// await waits for the answer to the hold's waiter, and returns false if ctx ends first.
func (h *Hold) await(ctx context.Context) (answered bool) {
	ends := ctx.Done()
	if ends == nil {
		<-h.answer
		return true
	}
	select {
	case <-h.answer:
		return true
	default:
	}
	select {
	case <-h.answer:
		return true
	case <-ends:
		return false
	}
}

// giveUp takes a waiter out of the line. If the answer came meanwhile, giveUp returns a failure, and gives a turn back:
// until that moment somebody was in the way.
func (k *Keeper) giveUp(ctx context.Context, n *name, at engine.Slot, h *Hold) error {
	gave := &GaveUp{Cause: context.Cause(ctx), k: k}
	n.shard.mu.Lock()
	gave.name = n.text
	if h.c != nil || n.slots[at].turn != h { // the answer has come
		n.shard.mu.Unlock()
		<-h.answer
		k.answered(h)
		if err := h.failure(); err != nil {
			return err
		}
		// The caller gets its context's error at once, and a worker asks the store.
		k.work.run(func() { _ = h.first.Release(0) })
		gave.Held = &Held{}
		return gave
	}
	now := n.enterEvent(k.clock.recent())
	v := n.engine.GiveUp(now, at)
	n.slots[at].turn = nil
	var t todo
	n.finishLocked(now, &t)
	n.shard.mu.Unlock()
	k.answered(h)
	t.do()
	switch v.Code {
	case protocol.Held:
		gave.Held = heldBy(&v)
	case protocol.Unreachable:
		gave.Err = v.Err
	}
	return gave
}
