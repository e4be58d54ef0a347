//go:build unix

package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/internal/histogram"
)

// How fast a lock is taken: by one goroutine alone, by 64 of one process, and by 64 of eight processes.

const processes = 8

func (b *bench) alone() *measure {
	return &measure{
		key: "alone", title: "Uncontended, one goroutine",
		about:   "One goroutine locks and unlocks one name that nobody else wants. A time is that of lock and unlock together.",
		columns: []column{{"rate", "ops/s", 0}, {"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}},
		rows:    b.arena.among(func(c contender) (sample, error) { return b.uncontended("alone", c, 1) }, b.arena.alone()...),
	}
}

func (b *bench) apart() *measure {
	return &measure{
		key: "apart", title: "Uncontended, 64 goroutines on 64 names",
		about: "Each of 64 goroutines of one process, which share one client, locks and unlocks a name of its own. A goroutine is stuck if " +
			"its last call waited for a lock that nobody had, for a quarter of the window at least.",
		columns: []column{{"rate", "ops/s", 0}, {"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}, {"stuck", "stuck", 0}},
		rows:    b.arena.among(func(c contender) (sample, error) { return b.uncontended("apart", c, contentionSize) }, b.arena.alone()...),
	}
}

func (b *bench) eight() *measure {
	return &measure{
		key: "names-8", title: "Uncontended, 8 goroutines on 8 names",
		about:   "Each of 8 goroutines of one process, which share one client, locks and unlocks a name of its own.",
		columns: []column{{"rate", "ops/s", 0}, {"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}},
		rows:    b.arena.among(func(c contender) (sample, error) { return b.uncontended("names-8", c, 8) }, b.arena.alone()...),
	}
}

func (b *bench) lingering() *measure {
	return &measure{
		key: "linger", title: "Linger, one goroutine",
		about: "Like the first scenario, with a claim that stays in the store for " + linger.String() + " after an unlock, so that the next lock here " +
			"needs no request. Nobody else wants the name; anybody who did would have it after the turn.",
		columns: []column{{"rate", "ops/s", 0}, {"p50", "p50 µs", 1}, {"p99", "p99 µs", 1}},
		rows:    b.arena.among(func(c contender) (sample, error) { return b.uncontended("linger", c, 1) }, lingers, b.arena.uncontended[1]),
	}
}

// uncontended lets goroutines lock and unlock one name each.
func (b *bench) uncontended(measure string, c contender, size int) (sample, error) {
	lib, err := c.open(b.addr, defaultTTL)
	if err != nil {
		return nil, err
	}
	defer lib.close()
	name := b.name()
	begin := time.Now().Add(b.window / 4)
	end := begin.Add(b.window)
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(b.window/4))
	defer cancel()
	waits, errs := make([]histogram.Histogram, size), make([]error, size)
	var stuck atomic.Int64
	err = profiled(b.profileFile(measure, c), func() error {
		var done sync.WaitGroup
		for i := range size {
			done.Go(func() {
				errs[i] = cycle(ctx, lib.mutex(name+"/"+strconv.Itoa(i)), &waits[i], begin, end)
				if errs[i] != nil && ctx.Err() != nil {
					errs[i] = nil
					stuck.Add(1)
				}
			})
		}
		done.Wait()
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, err
	}
	var all histogram.Histogram
	for i := range waits {
		all.Merge(&waits[i])
	}
	return sample{
		"rate": float64(all.N) / b.window.Seconds(),
		"p50":  micros(all.Quantile(0.5)), "p99": micros(all.Quantile(0.99)), "stuck": float64(stuck.Load()),
	}, nil
}

// cycle locks and unlocks until the end.
func cycle(ctx context.Context, m mutex, waits *histogram.Histogram, begin, end time.Time) error {
	for since := time.Now(); since.Before(end); {
		h, err := m.lock(ctx)
		if err != nil {
			return err
		}
		if err := h.Unlock(); err != nil {
			return err
		}
		now := time.Now()
		if since.After(begin) {
			waits.Add(now.Sub(since))
		}
		since = now
	}
	return nil
}

var contentionColumns = []column{
	{"passed", "hand-overs/s", 0}, {"acquired", "acquisitions/s", 0},
	{"p50", "wait p50 ms", 2}, {"p99", "p99 ms", 2}, {"p999", "p99.9 ms", 1}, {"max", "max ms", 0},
	{"hunger", "longest without ms", 0},
	{"jain", "Jain", 2}, {"zero", "never had it", 0}, {"overlaps", "overlaps", 0},
}

// hot also measures more rows beside b.arena.contended.
func (b *bench) hot(more ...string) *measure {
	return &measure{
		key: "hot", title: "One hot name, 64 goroutines of one process",
		about: "They share one client, and lock and unlock the same name with nothing in between. A hand-over is an acquisition by " +
			"another goroutine than the one that had the lock before.",
		columns: contentionColumns,
		rows:    b.arena.among(b.hotOne, slices.Concat(b.arena.contended, more)...),
	}
}

func (b *bench) hotOne(c contender) (sample, error) {
	lib, err := c.open(b.addr, defaultTTL)
	if err != nil {
		return nil, err
	}
	defer lib.close()
	all := &contention{
		lib: lib, name: b.name(), size: contentionSize, first: 1, field: &field{}, warm: b.window / 4, span: b.window,
	}
	var t *tally
	err = profiled(b.profileFile("hot", c), func() (err error) {
		t, err = all.run()
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.sample(b.window), nil
}

func (t *tally) sample(span time.Duration) sample {
	return sample{
		"passed": float64(t.Passed) / span.Seconds(), "acquired": float64(t.acquired()) / span.Seconds(),
		"crossed": float64(t.Crossed) / span.Seconds(), "p50": millis(t.Waits.Quantile(0.5)),
		"p99": millis(t.Waits.Quantile(0.99)), "p999": millis(t.Waits.Quantile(0.999)), "max": millis(t.Waits.Most), "hunger": millis(t.Hunger),
		"jain": jain(t.Each), "zero": float64(t.starved()), "overlaps": float64(t.Overlaps),
	}
}

// crossedColumns are contentionColumns and the rate of hand-overs between processes.
func crossedColumns() []column {
	return slices.Insert(slices.Clone(contentionColumns), 1, column{"crossed", "between processes/s", 0})
}

// fleet also measures more rows beside b.arena.contended.
func (b *bench) fleet(more ...string) *measure {
	return &measure{
		key: "fleet", title: "One hot name, 8 processes of 8 goroutines",
		about: "The same in eight processes with one client each, which begin together. A memory that all processes share says who " +
			"had the lock before. Most of stile's hand-overs are inside a process, for a turn of 2 ms at a time, and then comes the " +
			"next process: the waits for that are past its p99, so look at the columns after it too. Without turns, it shows what " +
			"passing the lock through the store each time costs.",
		columns: crossedColumns(),
		rows: b.arena.among(func(c contender) (sample, error) { return b.fleetOne("fleet", c, processes, contentionSize) },
			slices.Concat(b.arena.contended[:1], []string{noTurns}, b.arena.contended[1:], more)...),
	}
}

const (
	throngSize = 16
	workers    = 4
)

// throng also measures more rows beside b.arena.contended.
func (b *bench) throng(more ...string) *measure {
	return &measure{
		key: "throng", title: "One hot name, 16 processes of one goroutine",
		about: "Sixteen processes with one client each begin together, and lock and unlock one name with nothing in between. A memory that " +
			"all of them share says who had the lock before.",
		columns: contentionColumns,
		rows: b.arena.among(func(c contender) (sample, error) { return b.fleetOne("throng", c, throngSize, throngSize) },
			slices.Concat(b.arena.contended, more)...),
	}
}

func (b *bench) staffed() *measure {
	m := b.throng()
	m.key, m.title = "staffed", "One hot name, 16 processes of four goroutines"
	m.about = "As the last, with four goroutines in each process. stile's hand the lock on among themselves, for a turn of 2 ms at a " +
		"time, and then comes the next process."
	m.columns = crossedColumns()
	m.rows = b.arena.among(func(c contender) (sample, error) { return b.fleetOne("staffed", c, throngSize, workers*throngSize) },
		b.arena.contended...)
	return m
}

// fleetOne lets some processes want one name, with size goroutines in all.
func (b *bench) fleetOne(measure string, c contender, processes, size int) (sample, error) {
	name := b.name()
	t := task{
		Role: "contention", Store: b.arena.key, Addr: b.addr, Contender: c.name, Java: c.java(), TTL: defaultTTL, Name: name,
		Size: size / processes, First: 1, Field: filepath.Join(b.dir, name),
		Warm: b.warm(c), Span: b.window, Profile: b.profileFile(measure, c),
	}
	var all []*child
	tallies := make([]tally, processes)
	var failed error
	for range processes {
		p, err := startChild(&t)
		if err != nil {
			failed = err
			break
		}
		all = append(all, p)
		t.First += uint64(t.Size)
		t.Profile = ""
	}
	each := func(f func(i int, p *child) error) {
		for i, p := range all {
			if failed == nil {
				failed = f(i, p)
			}
		}
	}
	each(func(_ int, p *child) error { return p.hearWord("ready") })
	each(func(_ int, p *child) error { return p.say("go") })
	each(func(i int, p *child) error { return p.hear(&tallies[i]) })
	for _, p := range all {
		if err := p.end(failed == nil); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, failed
	}
	sum := &tally{}
	for i := range tallies {
		sum.merge(&tallies[i])
	}
	return sum.sample(b.window), nil
}

// contentionRole is a child's part of a contention.
func contentionRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	f, err := mapField(t.Field)
	if err != nil {
		return err
	}
	part := &contention{lib: lib, name: t.Name, size: t.Size, first: t.First, field: f, warm: t.Warm, span: t.Span}
	if err := parent.say("ready"); err != nil {
		return err
	}
	if err := parent.hearWord("go"); err != nil {
		return err
	}
	sum, err := part.run()
	if err != nil {
		return err
	}
	return parent.say(sum)
}
