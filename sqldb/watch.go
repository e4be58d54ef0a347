package sqldb

import (
	"context"
	"fmt"
	"strings"
)

// Watch is [driver.Watcher.Watch]. It reads the queue once more after each change, so what it has seen is never newer
// than what changed was called for.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	for {
		seen, err := d.look(ctx, name)
		if err != nil {
			return err
		}
		changed()
		if _, err = d.poll.wait(ctx, &waiter{name: name, seen: seen, told: make(chan outcome, 1)}); err != nil {
			return err
		}
	}
}

// look returns the shape of a name's queue as text.
func (d *Driver) look(ctx context.Context, name string) (string, error) {
	if err := d.moved(); err != nil {
		return "", err
	}
	if err := d.take(ctx, d.read); err != nil {
		return "", err
	}
	defer d.read.give()
	var s shape
	err := d.patiently(ctx, func() (err error) {
		s, err = d.readShape(name)
		return err
	})
	return s.text, err
}

// A shape is what a watch sees of a queue.
type shape struct {
	text string // differs whenever claims enter, leave, are kept, are told that they hold, run out, or are gone
	next int64  // when the next of them runs out or is gone; 0 means never
}

// readShape reads the shape of a name's queue. The read session must be taken.
func (d *Driver) readShape(name string) (shape, error) {
	q, err := readQueue(d.read, name)
	if err != nil {
		return shape{}, err
	}
	now := d.now()
	q.Expire(now)
	var b strings.Builder
	next, _ := q.Next()
	for _, e := range q.Entries {
		fmt.Fprintln(&b, e.Ticket, e.Told, e.Left, e.Ends <= now)
		if e.Ends > now {
			next = min(next, e.Ends) // before Next, if the lock-delay begins then
		}
	}
	return shape{text: b.String(), next: next}, nil
}
