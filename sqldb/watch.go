package sqldb

import (
	"context"
	"fmt"
	"strings"
)

// Changed is [driver.Watcher.Changed]. All calls for one name are one watch, which ends when a call's context does.
func (d *Driver) Changed(ctx context.Context, name string) error {
	if seen, begun := d.poll.watched(name); begun {
		_, err := d.poll.wait(ctx, &waiter{name: name, seen: seen, told: make(chan outcome, 1)})
		if err != nil {
			d.poll.unwatch(name)
		}
		return err
	}
	if err := d.take(ctx, d.read); err != nil {
		return err
	}
	defer d.read.give()
	return d.patiently(ctx, func() error {
		s, err := d.readShape(name)
		if err == nil {
			d.poll.watch(name, s.text)
		}
		return err
	})
}

// A shape is what a watch sees of a queue.
type shape struct {
	text string // differs whenever claims enter, leave, are kept, are told that they hold, or run out
	next int64  // when the next of them runs out; 0 means never
}

// readShape reads the shape of a name's queue. The read session must be taken.
func (d *Driver) readShape(name string) (shape, error) {
	q, err := readQueue(d.read, name)
	if err != nil {
		return shape{}, err
	}
	q.Expire(d.now())
	var b strings.Builder
	for _, e := range q.Entries {
		fmt.Fprintln(&b, e.Ticket, e.Told, e.Left)
	}
	next, _ := q.Next()
	return shape{text: b.String(), next: next}, nil
}

// watched returns the shape that the watch of a name saw last, and whether there is one.
func (p *poller) watched(name string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, begun := p.watches[name]
	return seen, begun
}

func (p *poller) watch(name, seen string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[name] = seen
}

func (p *poller) unwatch(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, name)
}
