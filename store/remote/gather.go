package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

const (
	// patience is how long calls wait for a request. It may be slow, or its host frozen or far away.
	patience = 5 * time.Millisecond

	// apart is how long calls go alone after a batch that did not bring the service's answer to each that waits for one. So callers
	// that give up a silent host, as over a slow store, do not spoil the others' calls again and again, and a service or a proxy
	// without batches is no hindrance.
	apart = 10 * time.Second
)

// A gatherer sends Enters and Leaves to a host. While the last request is under way, calls wait, and then share one, a batch: HTTP
// costs client and service more than the calls (267 µs for a lock and unlock by 64 goroutines, and 99 in batches). A single
// goroutine waits for nobody. If two requests were under way as a rule, fewer calls would share.
//
// Only the way to the host is shared. What follows from an answer, or from its lack, each caller decides for its own request.
//
// A caller that gives up leaves the others' request alone. Its call must not run on beside the next one about the claim: the service
// ends it when that comes. If the host is silent, the next one goes to another host: then the whole batch ends.
type gatherer struct {
	c    *client
	host string
	late *time.Timer // ends the patience of the queue

	patience time.Duration // patience, except in tests

	mu    sync.Mutex // guards the fields below, also in the items and batches
	last  any        // the item that goes alone, or the batch, that was sent last; nil once answered
	begun time.Time  // when it was sent
	alone time.Time  // until then each call goes alone
	queue []*item
}

// An item is a request of one caller.
type item struct {
	q     *request
	got   chan verdict // has room for the one verdict
	in    *batched     // nil while it waits, and if it goes alone
	given bool         // its caller has given it up
}

// A verdict is what becomes of an item.
type verdict struct {
	alone  bool // it goes in a request of its own, which its caller sends
	answer *api.BatchAnswer
	err    error
}

// A batched is a batch that is under way.
type batched struct {
	g     *gatherer
	ctx   context.Context
	end   context.CancelCauseFunc
	items []*item // nil once answered
}

func newGatherer(c *client, host string) *gatherer {
	g := &gatherer{c: c, host: host, patience: patience}
	g.late = time.AfterFunc(patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.nextLocked()
	})
	g.late.Stop()
	return g
}

// send sends a request alone, or in a batch. read takes the answer of a request that goes alone.
func (g *gatherer) send(ctx context.Context, q *request, read func(*exchange, *http.Response) error) error {
	it, begun := g.join(q), time.Now()
	var v verdict
	select {
	case v = <-it.got:
	case <-ctx.Done():
		if given, sent := g.giveUp(ctx, it, begun); given {
			return driver.Ended(ctx, sent)
		}
		v = <-it.got
	}
	switch {
	case v.alone:
		defer g.done(it)
		return g.c.exchange(ctx, g.host, q, read)
	case v.err != nil && ctx.Err() != nil:
		return driver.Ended(ctx, driver.OutcomeOf(v.err) != driver.OutcomeUnsent)
	case v.err != nil:
		return v.err
	}
	return g.take(q, v.answer)
}

// join lets a request go alone, or puts it into the queue.
func (g *gatherer) join(q *request) *item {
	q.shared = false
	it := &item{q: q, got: make(chan verdict, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, it)
	now := time.Now()
	if wait := g.patience - now.Sub(g.begun); g.last == nil || wait <= 0 || now.Before(g.alone) {
		g.nextLocked()
	} else if len(g.queue) == 1 {
		g.late.Reset(wait)
	}
	return it
}

// giveUp gives up an item without a verdict, and reports whether it may have been sent. It ends a batch that nobody waits for, or
// whose host is silent.
func (g *gatherer) giveUp(ctx context.Context, it *item, begun time.Time) (given, sent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(it.got) > 0 {
		return false, false
	}
	if i := slices.Index(g.queue, it); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		return true, false
	}
	it.given = true
	if it.in.uselessLocked() || it.q.silent(ctx, begun) && len(g.c.hosts) > 1 {
		it.in.endLocked()
	}
	return true, true
}

// done notes the end of a request. If it was the last, the queue is sent.
func (g *gatherer) done(sent any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == sent {
		g.last = nil
		g.nextLocked()
	}
}

// nextLocked sends the queue, in as many requests as carry it.
func (g *gatherer) nextLocked() {
	g.late.Stop()
	for len(g.queue) > 0 {
		n := g.carriedLocked()
		g.sendLocked(g.queue[:n:n])
		g.queue = g.queue[n:]
	}
	g.queue = nil
}

// carriedLocked returns how many calls of the queue the next request carries.
func (g *gatherer) carriedLocked() (n int) {
	if time.Now().Before(g.alone) {
		return 1
	}
	size := 0
	for _, it := range g.queue {
		size += len(it.q.body) + api.ItemRest
		if n == api.MaxItems || n > 0 && size > api.MaxRequest || it.q.store != g.queue[0].q.store {
			break
		}
		n++
	}
	return n
}

// sendLocked sends some calls.
func (g *gatherer) sendLocked(items []*item) {
	g.begun = time.Now()
	if len(items) == 1 {
		g.last = items[0]
		items[0].got <- verdict{alone: true}
		return
	}
	b := &batched{g: g, items: items}
	b.ctx, b.end = context.WithCancelCause(context.Background())
	for _, it := range items {
		it.in, it.q.shared = b, true
	}
	if g.c.life.Go(b.carry) {
		g.last = b
	} else {
		b.failLocked(verdict{alone: true}) // the client is closed, which they learn there
	}
}

// take takes the answer to a request.
func (g *gatherer) take(q *request, answer *api.BatchAnswer) error {
	if answer.Error != nil {
		return g.c.refusal(answer.Error, strconv.Itoa(answer.After))
	}
	if json.Unmarshal(answer.Answer, q.answer) != nil || !q.answer.Whole() {
		return g.foreign()
	}
	return nil
}

// foreign is the error of an answer that is not the service's.
func (g *gatherer) foreign() error {
	return driver.Unknown(fmt.Errorf("at %s there is an answer that is not a lock service's", bare(g.host)))
}

// carry sends the batch.
func (b *batched) carry() {
	g, begun := b.g, time.Now()
	defer g.done(b)
	defer b.end(nil)
	q := &request{method: http.MethodPost, path: api.Batch, store: b.items[0].q.store}
	for _, it := range b.items {
		q.body = api.AppendItem(q.body, it.q.path, it.q.body)
	}
	err := g.c.exchange(b.ctx, g.host, q, b.read)
	if err == nil {
		return
	}
	v, given := verdict{err: err}, b.ctx.Err() != nil
	switch {
	case errors.Is(err, errNoBatches):
		v = verdict{alone: true}
	case given && time.Since(begun) >= slow: // see request.silent
		v.err = driver.Unreachable(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.waitedForLocked() {
		g.alone = time.Now().Add(apart)
	}
	b.failLocked(v)
	g.nextLocked()
}

// errNoBatches is the error of a batch that the service refused as a whole, since its revision has none, or since a proxy changed
// it. No call of it is to blame.
var errNoBatches = errors.New("the lock service has no batches")

// read takes the answers, line by line. It returns an error unless each item has one.
func (b *batched) read(x *exchange, res *http.Response) error {
	most := &io.LimitedReader{R: res.Body, N: api.MaxAnswer}
	if res.StatusCode != http.StatusOK || kindOf(res) != api.Lines {
		head, _ := io.ReadAll(most) // a truncated text is not the service's
		if e, own := api.ReadError(head); own && e.Code == api.CodeInvalid {
			return errNoBatches
		}
		return x.refused(res, head)
	}
	lines := bufio.NewReader(most)
	for range len(b.items) {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			err = errCut
		}
		if err != nil {
			return x.failed(err)
		}
		answer := &api.BatchAnswer{Item: -1}
		if json.Unmarshal(line, answer) != nil || !b.give(answer) {
			return b.g.foreign()
		}
	}
	late := time.AfterFunc(slow, func() { b.end(nil) }) // no caller waits for the end of the answer
	defer late.Stop()
	_, _ = lines.ReadByte() // the end, so that the connection serves again
	return nil
}

// give gives an answer to its item, and reports whether there is such an item without one. It ends a batch that nobody waits for any
// more.
func (b *batched) give(answer *api.BatchAnswer) bool {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	i := answer.Item
	if i < 0 || i >= len(b.items) || b.items[i] == nil {
		return false
	}
	b.items[i].got <- verdict{answer: answer}
	if b.items[i] = nil; b.uselessLocked() {
		b.endLocked()
	}
	return true
}

// waitedForLocked reports whether a caller waits for the batch.
func (b *batched) waitedForLocked() bool {
	return slices.ContainsFunc(b.items, func(it *item) bool { return it != nil && !it.given })
}

// uselessLocked reports whether there are only answers to come that nobody waits for.
func (b *batched) uselessLocked() bool {
	return !b.waitedForLocked() && slices.ContainsFunc(b.items, func(it *item) bool { return it != nil })
}

// endLocked ends a batch, since a call was given up.
func (b *batched) endLocked() {
	b.end(fmt.Errorf("the lock service at %s: a call that shared this one's request was given up", bare(b.g.host)))
}

// failLocked gives a verdict to the items without one.
func (b *batched) failLocked(v verdict) {
	for _, it := range b.items {
		if it != nil {
			it.got <- v
		}
	}
}
