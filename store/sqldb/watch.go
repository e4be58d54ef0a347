package sqldb

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/stilelock/stile/driver"
)

// Watch is [driver.Watcher.Watch]. It reads the queue again after each change, and calls changed for every state that it has
// seen.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	for {
		queues, now, err := d.read(ctx, &driver.Query{Name: name})
		if err != nil {
			return err
		}
		seen := ""
		for _, n := range queues {
			seen = shapeOf(n.Queue, now).text
		}
		changed()
		w := &waiter{Waiting: Waiting{Name: name}, watches: true, seen: seen, told: make(chan outcome, 1)}
		if _, err = d.poll.wait(ctx, w); err != nil {
			return err
		}
	}
}

// recordSeed begins the hashes of records.
var recordSeed = maphash.MakeSeed()

// A shape is the part of a queue that a watch compares.
type shape struct {
	text string // differs whenever claims enter, leave, are kept, learn that they hold, are amended, run out, or are gone
	next int64  // when the next of them runs out or is gone; 0 means never
}

// shapeOf returns the shape of a queue, and removes the expired claims from the queue. A name without a queue has the zero
// shape.
func shapeOf(q *driver.Queue, now int64) shape {
	q.Expire(now)
	var b strings.Builder
	next, _ := q.Next()
	for _, e := range q.Entries {
		fmt.Fprintln(&b, e.Ticket, e.Notified, e.Left, e.Ends <= now, e.Weight, maphash.String(recordSeed, e.Record))
		if e.Ends > now {
			next = min(next, e.Ends) // earlier than Next, if the lock-delay begins then
		}
	}
	return shape{text: b.String(), next: next}
}
