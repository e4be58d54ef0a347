package claims

import (
	"context"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
)

// A Want is what one goroutine asks for.
type Want struct {
	engine.Terms
	engine.Want
	shard *shard
}

// Place finds out once where a name is kept that will be wanted again and again.
func (k *Keeper) Place(w *Want) { w.shard = k.shard(w.Name) }

// A waiter is a goroutine that stands in a line.
type waiter struct {
	want   *Want
	hold   *Hold       // room for what it waits for
	answer chan answer // has room for one
}

type answer struct {
	share *Share
	err   error
}

// waiter returns one, with a channel that was used before if there is any.
func (k *Keeper) waiter(want *Want, h *Hold) *waiter {
	w, ok := k.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{answer: make(chan answer, 1)}
	}
	w.want, w.hold = want, h
	return w
}

// answered takes a waiter back that has its answer, or will get none.
func (k *Keeper) answered(w *waiter) {
	w.want, w.hold = nil, nil
	k.waiters.Put(w)
}

// Acquire takes a turn, or waits for one until ctx ends; the error is a [*GaveUp] then. A try does not wait: the error is
// a [*Held] if it would have to.
func (k *Keeper) Acquire(ctx context.Context, want *Want, try bool) (*Share, error) {
	s := want.shard
	if s == nil {
		s = k.shard(want.Name)
	}
	h := new(Hold)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, driver.ErrClosed
	}
	n := s.name(want.Name)
	now := n.enterEvent(k.clock.recent())
	asks := want.Want
	asks.Try = try
	hold, at := n.engine.Want(now, &want.Terms, asks)
	if hold != engine.None {
		share := n.begin(h, hold)
		n.finishOwn(now)
		return share, nil
	}
	w := k.waiter(want, h)
	set(&n.turns, at, turn{waiter: w})
	var t todo
	n.finish(now, &t)
	s.mu.Unlock()

	// Mostly the lock is free, and waking a goroutine twice costs as much as a good part of a round trip: so the first
	// request runs here.
	k.first(&t, ctx)
	select {
	case a := <-w.answer:
		k.answered(w)
		return a.share, a.err
	default:
	}
	select {
	case a := <-w.answer:
		k.answered(w)
		return a.share, a.err
	case <-ctx.Done():
		return nil, k.giveUp(ctx, n, at, w)
	}
}

// giveUp takes a waiter out of the line. If it was answered meanwhile, the turn is given back.
func (k *Keeper) giveUp(ctx context.Context, n *name, at engine.Slot, w *waiter) error {
	gave := &GaveUp{Cause: context.Cause(ctx)}
	n.shard.mu.Lock()
	select {
	case a := <-w.answer:
		n.shard.mu.Unlock()
		k.answered(w)
		if a.share != nil {
			// The caller learns of its context's end at once, and a worker tells the store.
			k.work.run(func() { _ = a.share.Release(0) })
		}
		return gave
	default:
	}
	now := n.enterEvent(k.clock.recent())
	v := n.engine.GiveUp(now, at)
	n.turns[at] = turn{}
	var t todo
	n.finish(now, &t)
	n.shard.mu.Unlock()
	k.answered(w)
	t.do()
	switch v.Code {
	case engine.Held:
		gave.Held = heldBy(&v)
	case engine.Unreachable:
		gave.Err = v.Err
	}
	return gave
}
