package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// patience is how long calls wait for a request under way. It may be slow, or its host frozen or far away.
const patience = 5 * time.Millisecond

// A gatherer sends Enters and Leaves to a host. While one is under way, others wait, and then share a request: HTTP costs client
// and service more than the calls. So a single goroutine never waits for others, and many share requests. If two were under
// way at a time, fewer would share.
//
// Only the way to the host is shared. What follows from an answer, or from its lack, each caller decides for its own request.
type gatherer struct {
	c    *client
	host string
	late *time.Timer // ends the patience of the queue

	patience time.Duration // patience, except in tests

	mu    sync.Mutex // guards the fields below, also in the items and batches
	under int        // requests under way
	begun time.Time  // when the last of them was sent
	queue []*item
}

// An item is a request of one caller.
type item struct {
	q     *request
	got   chan verdict // has room for the one verdict
	in    *batched     // nil while it waits, and if it goes alone
	given bool         // the caller has given it up
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
	x     exchange
	end   context.CancelFunc
	items []*item // nil once answered
}

func newGatherer(c *client, host string) *gatherer {
	g := &gatherer{c: c, host: host, patience: patience}
	g.late = time.AfterFunc(patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.nextLocked()
	})
	return g
}

// send sends a request alone, or in a batch. read takes the answer of a request that goes alone.
func (g *gatherer) send(ctx context.Context, q *request, read func(*exchange, *http.Response) error) error {
	it := g.join(q)
	var v verdict
	select {
	case v = <-it.got:
	case <-ctx.Done():
		if err := g.giveUp(ctx, it); err != nil {
			return err
		}
		v = <-it.got
	}
	switch {
	case v.alone:
		defer g.done()
		return g.c.exchange(ctx, g.host, q, read)
	case v.err != nil:
		return v.err
	}
	return g.take(q, v.answer)
}

// join lets a request go alone, or puts it into the queue.
func (g *gatherer) join(q *request) *item {
	it := &item{q: q, got: make(chan verdict, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, it)
	if wait := g.patience - time.Since(g.begun); g.under == 0 || wait <= 0 {
		g.nextLocked()
	} else if len(g.queue) == 1 {
		g.late.Reset(wait)
	}
	return it
}

// done notes the end of a request, and sends the queue.
func (g *gatherer) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	g.nextLocked()
}

// nextLocked sends the queue, as far as one request can carry it.
func (g *gatherer) nextLocked() {
	n, size := 0, 0
	for _, it := range g.queue {
		size += len(it.q.body) + api.ItemRest
		if n == api.MaxItems || n > 0 && size > api.MaxRequest || it.q.store != g.queue[0].q.store {
			break
		}
		n++
	}
	if n == 0 {
		return
	}
	items := slices.Clone(g.queue[:n])
	if g.queue = slices.Delete(g.queue, 0, n); len(g.queue) > 0 {
		g.late.Reset(g.patience)
	} else {
		g.late.Stop()
	}
	g.under, g.begun = g.under+1, time.Now()
	if n == 1 {
		items[0].got <- verdict{alone: true}
		return
	}
	b := &batched{g: g, items: items}
	b.x.c, b.x.host = g.c, g.host
	b.x.caller, b.end = context.WithCancel(context.Background())
	for _, it := range items {
		it.in = b
	}
	if !g.c.life.Go(b.carry) {
		g.under--
		for i := range items {
			b.giveLocked(i, verdict{err: driver.Unsent(driver.ErrClosed)})
		}
	}
}

// giveUp returns the error of an item whose caller's context has ended, or nil if the verdict came before. If no other caller
// waits for its batch, the request ends.
func (g *gatherer) giveUp(ctx context.Context, it *item) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(it.got) > 0 {
		return nil
	}
	if it.in == nil {
		g.queue = slices.DeleteFunc(g.queue, func(other *item) bool { return other == it })
		return driver.Ended(ctx, false)
	}
	it.given = true
	if !slices.ContainsFunc(it.in.items, func(it *item) bool { return it != nil && !it.given }) {
		it.in.end()
	}
	return driver.Ended(ctx, it.in.x.sent.Load())
}

// take takes the answer to a request.
func (g *gatherer) take(q *request, answer *api.BatchAnswer) error {
	if answer.Error != nil {
		return g.c.refusal(answer.Error, strconv.Itoa(answer.After))
	}
	switch a := answer.To(q.path).(type) {
	case *api.PlaceAnswer:
		*q.answer.(*api.PlaceAnswer) = *a
	case *api.LeaveAnswer:
		*q.answer.(*api.LeaveAnswer) = *a
	default:
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
	defer b.g.done()
	defer b.end()
	q := &request{method: http.MethodPost, path: api.Batch, kind: api.Lines, store: b.items[0].q.store}
	for _, it := range b.items {
		q.body = api.AppendItem(q.body, it.q.path, it.q.body)
	}
	if err := b.x.send(q, b.read); err != nil {
		b.g.mu.Lock()
		defer b.g.mu.Unlock()
		for i := range b.items {
			b.giveLocked(i, verdict{err: err})
		}
	}
}

// read takes the answers, line by line. It returns an error unless each item has one.
func (b *batched) read(x *exchange, res *http.Response) error {
	most := &io.LimitedReader{R: res.Body, N: api.MaxAnswer}
	if res.StatusCode != http.StatusOK || kindOf(res) != api.Lines {
		head, _ := io.ReadAll(most) // a truncated text is not the service's
		return x.refused(res, head)
	}
	lines, left := bufio.NewReader(most), len(b.items)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 && left == 0 {
			return nil
		}
		if err == io.EOF {
			err = errCut
		}
		if err != nil {
			return x.failed(err)
		}
		answer := &api.BatchAnswer{Item: -1}
		if json.Unmarshal(bytes.TrimSuffix(line, []byte("\n")), answer) != nil || !b.give(answer) {
			return b.g.foreign()
		}
		left--
	}
}

// give gives an answer to its item, and reports whether there is such an item without one.
func (b *batched) give(answer *api.BatchAnswer) bool {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	i := answer.Item
	if i < 0 || i >= len(b.items) || b.items[i] == nil {
		return false
	}
	b.giveLocked(i, verdict{answer: answer})
	return true
}

// giveLocked gives its verdict to an item without one.
func (b *batched) giveLocked(i int, v verdict) {
	if it := b.items[i]; it != nil {
		it.got <- v
		b.items[i] = nil
	}
}
