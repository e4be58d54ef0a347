package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
)

const (
	watchFor  = time.Minute            // how long changes of a name are notified after a watch asked for it
	watchPoll = 250 * time.Millisecond // how often a queue is read without notifications
	watchDown = time.Second            // the same while the server is away
)

// A watch knows which callers of this driver watch which name.
type watch struct {
	d     *Driver
	mu    sync.Mutex // guards names
	names map[string]map[chan struct{}]bool
}

func newWatch(d *Driver) *watch { return &watch{d: d, names: map[string]map[chan struct{}]bool{}} }

// begin returns a channel that gets a value after changes of a name.
func (w *watch) begin(name string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan struct{}, 1)
	if w.names[name] == nil {
		w.names[name] = map[chan struct{}]bool{}
	}
	w.names[name][ch] = true
	return ch
}

func (w *watch) endWatch(name string, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.names[name], ch)
	if len(w.names[name]) == 0 {
		delete(w.names, name)
	}
}

// told handles a message, which is the name of a changed queue.
func (w *watch) told(text string) {
	if name, err := hex.DecodeString(text); err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tell(string(name))
	}
}

// all informs all watches that their names may have changed.
func (w *watch) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.names {
		w.tell(name)
	}
}

func (w *watch) tell(name string) {
	for ch := range w.names[name] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Watch is [driver.Watcher]. With notifications it costs a statement for each change, and one in half a minute.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	news := d.watch.begin(name)
	defer d.watch.endWatch(name, news)
	listens := "watch " + rand.Text() // keeps the driver listening
	defer d.inboxes.Forget(d.channel, listens)
	var (
		seen   string
		first  = true
		told   bool
		marked time.Time
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		again, err := d.subscribe(ctx, name, listens, &marked)
		if err != nil {
			return err
		}
		shape, next, err := d.shape(ctx, name)
		switch {
		case d.link.Context().Err() != nil:
			return driver.ErrClosed
		case ctx.Err() != nil:
			return driver.Ended(ctx, true)
		case driver.IsUnreachable(err):
			again = watchDown
		case err != nil:
			return err
		case first || told || shape != seen:
			seen, first = shape, false
			changed()
		}
		if next > 0 {
			again = min(again, next)
		}
		timer.Reset(again)
		select {
		case <-news:
			told = true
		case <-timer.C:
			told = false
		case <-ctx.Done():
			return driver.Ended(ctx, true)
		case <-d.link.Context().Done():
			return driver.ErrClosed
		}
	}
}

// subscribe makes the server notify changes of a name, if notifications arrive, and returns how long the next read of its
// queue can wait. The inbox expects the watch by an id, as it expects a claim, so that the subscription stays up.
func (d *Driver) subscribe(ctx context.Context, name, id string, marked *time.Time) (time.Duration, error) {
	if d.pollReason != "" {
		return watchPoll, nil
	}
	if err := d.inboxes.Open(ctx, d.channel); err != nil {
		return 0, err
	}
	if time.Since(*marked) > watchFor/2 {
		if err := d.mark(ctx, name); err == nil {
			*marked = time.Now()
		} else if !driver.IsUnreachable(err) && d.link.Context().Err() == nil {
			return 0, err
		}
	}
	if d.inboxes.Expect(d.channel, id) && !marked.IsZero() {
		return watchFor / 2, nil
	}
	return watchPoll, nil
}

// mark makes the server notify changes of a name for watchFor.
func (d *Driver) mark(ctx context.Context, name string) error {
	return d.link.Query(ctx, d.statements.mark, []any{[]byte(name), micros(watchFor)}, nothing)
}

func nothing(pgx.Rows) error { return nil }

// recordSeed begins the hashes of records.
var recordSeed = maphash.MakeSeed()

// shape reads a queue for a watch. It returns a text that changes whenever a claim enters, leaves, is kept, learns that it
// holds, is amended, or runs out. It also returns the time until the next claim runs out, or 0 if there is none.
func (d *Driver) shape(ctx context.Context, name string) (text string, next time.Duration, err error) {
	var (
		q   driver.Queue
		now int64
	)
	err = d.link.Query(ctx, d.statements.queue, []any{[]byte(name)}, func(rows pgx.Rows) error {
		_, e, capacity, at, err := scanEntry(rows)
		q.Capacity, q.Entries, now = capacity, append(q.Entries, e), at
		return err
	})
	if err != nil {
		return "", 0, err
	}
	q.Expire(now)
	var b strings.Builder
	for _, e := range q.Entries {
		fmt.Fprintln(&b, e.Ticket, e.Notified, e.Left, e.Ends <= now, e.Weight, maphash.String(recordSeed, e.Record))
		if e.Ends > now && (next == 0 || span(e.Ends-now) < next) {
			next = span(e.Ends-now) + time.Millisecond
		}
	}
	if at, ok := q.Next(); ok && (next == 0 || span(at-now) < next) {
		next = span(at-now) + time.Millisecond
	}
	return b.String(), next, nil
}
