package sqldb

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

// A table is a database in memory. Each of its clients is a [Store].
type table struct {
	mu     sync.Mutex // guards the queues
	queues map[string]*driver.Queue
}

func (t *table) queue(name string) *driver.Queue {
	if t.queues[name] == nil {
		t.queues[name] = &driver.Queue{}
	}
	return t.queues[name]
}

// rows is the [Writer] of a queue.
type rows struct{ q *driver.Queue }

func (r rows) Insert(e *driver.Entry) error {
	r.q.Entries = append(r.q.Entries, *e)
	return nil
}

func (r rows) Update(e *driver.Entry) error {
	for i := range r.q.Entries {
		if was := &r.q.Entries[i]; was.Ticket == e.Ticket {
			was.Ends, was.Notified, was.Left = e.Ends, e.Notified, e.Left
		}
	}
	return nil
}

func (r rows) Amend(e *driver.Entry) error {
	for i := range r.q.Entries {
		if was := &r.q.Entries[i]; was.Ticket == e.Ticket {
			was.Weight, was.Record = e.Weight, e.Record
		}
	}
	return r.Update(e)
}

func (r rows) Delete(ticket int64) error {
	r.q.Entries = slices.DeleteFunc(r.q.Entries, func(e driver.Entry) bool { return e.Ticket == ticket })
	return nil
}

type client struct{ *table }

func copied(q *driver.Queue) *driver.Queue {
	c := *q
	c.Entries = slices.Clone(q.Entries)
	return &c
}

func now() int64 { return time.Now().UnixMicro() }

// Change does every step twice, as a store may.
func (c client) Change(ctx context.Context, steps []Step) error {
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range steps {
		s.Do(now(), 0, copied(c.queue(s.Name)))
	}
	for _, s := range steps {
		real := c.queue(s.Name)
		q := copied(real)
		s.Do(now(), 0, q)
		real.Last, real.Capacity = q.Last, q.Capacity
		if err := Save(rows{real}, slices.Clone(real.Entries), q.Entries); err != nil {
			return err
		}
	}
	return nil
}

func (c client) Read(ctx context.Context, query *driver.Query) (list []Named, at int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.queues)) {
		if name == query.Name || query.Name == "" && strings.HasPrefix(name, query.Prefix) {
			list = append(list, Named{name, copied(c.queues[name])})
			driver.Heard(ctx, 1)
		}
	}
	return list, now(), nil
}

func (c client) Poll(_ context.Context, g *PollRequest) (*PollResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &PollResult{Now: now(), States: make([]State, len(g.Claims)), Queues: map[string]*driver.Queue{}}
	for i, w := range g.Claims {
		kept, q := int64(0), c.queue(w.Name)
		for ahead, e := range q.Entries {
			if e.ID == w.ID && e.Ticket == w.Ticket {
				s.States[i] = State{Ends: e.Ends, Holds: e.Notified && !e.Left, Ahead: ahead}
				if g.Kept && ahead == q.Holding() {
					s.States[i].Kept = kept
				}
			}
			if e.Left && (kept == 0 || e.Ends < kept) {
				kept = e.Ends
			}
		}
	}
	for _, name := range g.Names {
		s.Queues[name] = copied(c.queue(name))
	}
	return s, nil
}

func (client) Pause(time.Duration, int) time.Duration { return time.Millisecond }

func (client) Close() error { return nil }

func (client) Traits() driver.Traits {
	return driver.Traits{
		Store: "table", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, Fencing: driver.ClockFencing, Clock: "process", Wake: "poll",
		MinTTL: 50 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
}

func TestOver(t *testing.T) {
	db := &table{queues: map[string]*driver.Queue{}}
	s := drivertest.Store{Open: func(testing.TB) driver.Driver { return Over(client{db}) }}
	drivertest.Run(t, s)
	drivertest.Model(t, s, 1, 1000)
}
