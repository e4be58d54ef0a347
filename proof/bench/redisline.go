//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// lineSizes are the numbers of waiting claims in the measured queues.
var lineSizes = []int{8, 64, 256, 1000, 10_000}

const (
	lineCalls = 50  // changes between two reads of the server's time
	lineStep  = 797 // from one claim that asks for its place to the next; no size is a multiple of it
)

// line measures the server's cost of a long queue.
func (b *bench) line() *measure {
	m := &measure{
		key: "line", title: "What a change of a long queue costs the server", slow: true, each: 2*b.window + time.Second,
		about: fmt.Sprintf("So many claims, of as many clients, wait for one name. Again and again one enters at the tail and the head leaves; "+
			"then each in turn asks for its place. The time is that which the server counts for scripts (INFO commandstats), the median of many times %d "+
			"changes. The last column is the same time for all the claims, which come at once to an empty name. Bare scripts keep an order and "+
			"a text for each, and tell who is the next; they know of no leases.", lineCalls),
		columns: []column{
			{"change", "µs in scripts, enter and leave", 1}, {"look", "µs in scripts, a look", 1}, {"herd", "ms in scripts, all enter", 1},
		},
	}
	for _, n := range lineSizes {
		m.rows = append(m.rows,
			&row{name: lineRow(n), run: func() (sample, error) { return b.lineOne(n, b.openQueue) }},
			&row{name: bareLineRow(n), run: func() (sample, error) { return b.lineOne(n, b.openBareQueue) }},
		)
	}
	return m
}

func lineRow(n int) string { return ours + waiting(n) }

func bareLineRow(n int) string { return bareScripts + waiting(n) }

func waiting(n int) string { return ", " + grouped(float64(n), 0) + " waiting" }

// A line is a queue of claims for a name.
type line interface {
	enter(ctx context.Context) error       // at the tail
	leave(ctx context.Context) error       // removes the head
	look(ctx context.Context, i int) error // asks for the place of one claim
	close()
}

func (b *bench) lineOne(n int, open func(ctx context.Context) (line, error)) (sample, error) {
	if b.brief {
		n = min(n, 64)
	}
	ctx := context.Background()
	q, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer q.close()
	herd, err := scriptTime(b.server, func() error {
		for range n {
			if err := q.enter(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	change, err := b.scriptTimes(func() error {
		if err := q.enter(ctx); err != nil {
			return err
		}
		return q.leave(ctx)
	})
	if err != nil {
		return nil, err
	}
	next := 0
	look, err := b.scriptTimes(func() error {
		next = (next + lineStep) % n
		return q.look(ctx, next)
	})
	if err != nil {
		return nil, err
	}
	// Removing all claims one by one would take too long.
	_, err = redisDo(b.server, "FLUSHALL")
	return sample{"change": change, "look": look, "herd": millis(herd)}, err
}

// A queue is stile's line.
type queue struct {
	d      driver.Driver
	name   string
	claims []*driver.Claim
	drawn  int
}

func (b *bench) openQueue(ctx context.Context) (line, error) {
	d, err := driver.Open(ctx, "redis://"+b.server.Addr)
	return &queue{d: d, name: b.name()}, err
}

func (q *queue) close() { _ = q.d.Close() } // after the measurement

// lineID and lineRecord have the usual length.
func lineID(n int) string { return fmt.Sprintf("QZ3J5V7K2M4N6P8R-%d", n) }

const lineRecord = `{"owner":"host-17","host":"host-17.example","pid":4711,"since":"2026-01-01T00:00:00Z"}`

func (q *queue) enter(ctx context.Context) error {
	q.drawn++
	id := lineID(q.drawn)
	c := &driver.Claim{
		Name: q.name, ID: id, Client: "client-of-" + id, Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour,
		Record: lineRecord,
	}
	p, err := q.d.Enter(ctx, c)
	if err != nil {
		return err
	}
	c.Ticket = p.Ticket
	q.claims = append(q.claims, c)
	return nil
}

func (q *queue) leave(ctx context.Context) error {
	c := q.claims[0]
	q.claims = q.claims[1:]
	return q.d.Leave(ctx, &driver.Release{Claim: c})
}

func (q *queue) look(ctx context.Context, i int) error {
	_, err := q.d.Enter(ctx, q.claims[i])
	return err
}

// scriptTimes calls once for a window, and returns how many microseconds of scripts each call costs the server.
func (b *bench) scriptTimes(once func() error) (float64, error) {
	var times []float64
	for end := time.Now().Add(b.window); len(times) == 0 || time.Now().Before(end); {
		took, err := scriptTime(b.server, func() error {
			for range lineCalls {
				if err := once(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		times = append(times, micros(took)/lineCalls)
	}
	return median(times), nil
}

// scriptTime calls do and returns how long the server ran scripts meanwhile.
func scriptTime(s *servertest.Server, do func() error) (time.Duration, error) {
	before, err := redisStats(s)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := redisStats(s)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range []string{"eval", "evalsha", "fcall"} {
		sum += after[name].spent - before[name].spent
	}
	return sum, nil
}
