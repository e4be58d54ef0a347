package claims

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/agenda"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// requests runs a request and each request that follows from it, in a worker.
func (k *Keeper) requests(s send) {
	for s.c != nil {
		var t todo
		k.request(&s, k.clock.recent(), nil, &t)
		s, t.send = t.send, send{}
		t.rest()
	}
}

// request runs one request and gives the engine the answer. sent is a time before the request. With a caller, the request
// also ends with the caller's context.
func (k *Keeper) request(s *send, sent engine.Time, caller context.Context, t *todo) {
	r := k.runRequest(s, sent, caller)
	n := s.c.n
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	if s.c.out == s.call {
		s.c.out = nil
	}
	now := n.enterEvent(k.clock.recent())
	n.engine.Answer(now, &r)
	n.finishLocked(now, t)
}

// runRequest runs one request.
func (k *Keeper) runRequest(s *send, sent engine.Time, caller context.Context) (r protocol.Reply) {
	c, ctx := s.c, s.call
	ctx.begin(&k.clock, protocol.After(sent, s.limit), caller)
	defer ctx.finish()
	if s.verb == protocol.Enter && !k.traits.Ordered {
		sent += k.yields.give(ctx, k, s.asks)
	}
	r = protocol.Reply{Claim: c.slot, Number: s.number, Sent: sent}
	var err error
	switch s.verb {
	case protocol.Enter:
		r.Place, err = k.enter(s)
		if err == nil && !r.Place.Holds && !k.traits.Ordered {
			k.yields.refused(c.name, r.Sent)
		}
	case protocol.Await:
		r.Place, err = k.d.Await(ctx, s.asks)
	case protocol.Leave:
		s.call.leaves = driver.Release{Claim: s.asks, Keep: s.keep}
		err = k.d.Leave(ctx, &s.call.leaves)
		if !k.traits.Ordered {
			k.yields.left(c.name, r.Sent, k.clock.recent())
		}
	}
	if err != nil {
		r.Outcome, r.Err, r.Place = outcomeOf(err), failure(err), driver.Place{}
	}
	if k.doubt(&r); r.OK() && r.Place.Holds {
		c.fenced.Store(k.fences())
	}
	return r
}

// renewBatch is the most claims that one call renews.
const renewBatch = 256

// extend renews claims in batches.
func (k *Keeper) extend(all []send) {
	kinds := make([]agenda.RenewalKind, len(all))
	for i, s := range all {
		kinds[i] = agenda.RenewalKind{TTL: s.asks.TTL, Failing: s.c.jeopardy.Load()}
	}
	for _, indices := range agenda.Batches(kinds, renewBatch) {
		batch := make([]send, len(indices))
		for i, at := range indices {
			batch[i] = all[at]
		}
		k.work.run(func() { k.renew(batch) })
	}
}

// renew renews a batch.
func (k *Keeper) renew(batch []send) {
	limit := batch[0].asks.TTL / 6
	list := make([]*driver.Claim, len(batch))
	for i, s := range batch {
		list[i] = s.asks
		limit = min(limit, s.limit)
	}
	ctx, cancel := context.WithTimeout(k.base, max(limit, time.Millisecond))
	defer cancel()
	sent := k.clock.now()
	answers := k.d.Renew(ctx, list)
	k.clock.now() // notes a suspension before the answers
	lacks := k.lacks()
	var t todo
	for i, s := range batch {
		r := protocol.Reply{Claim: s.c.slot, Number: s.number, Sent: sent, TTL: answers[i].TTL}
		if err := answers[i].Err; err != nil {
			r.Outcome, r.Err = outcomeOf(err), failure(err)
		} else if lacks != nil {
			r.Outcome, r.Err = protocol.Lacking, lacks
		}
		n := s.c.n
		n.shard.mu.Lock()
		now := n.enterEvent(k.clock.recent())
		n.engine.Answer(now, &r)
		n.finishLocked(now, &t)
		if answers[i].Err == nil {
			n.askedLocked(s.c, answers[i].Asks)
		}
		n.shard.mu.Unlock()
	}
	t.do()
}
