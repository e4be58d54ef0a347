//go:build unix

package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/internal/histogram"
)

// A waiter waits for a time between these two before the lock is released, so that a polling waiter can be at any point of
// its delay.
const (
	waitLeast = 10 * time.Millisecond
	waitMost  = 30 * time.Millisecond
)

// handOver also measures more rows beside b.arena.contended.
func (b *bench) handOver(more ...string) *measure {
	return &measure{
		key: "handover", title: "Hand-over to one waiter in another process",
		about: "One process holds the lock, another waits for it, for 10 to 30 ms. The time is from the call of unlock until lock has " +
			"returned in the other process, by the clock that both share. A call that has not had the lock after " + givenUp.String() + " is given up and made again.",
		columns: []column{{"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}, {"n", "samples", 0}},
		rows:    b.arena.among(b.handOverOne, slices.Concat(b.arena.contended, more)...),
	}
}

func (b *bench) handOverOne(c contender) (sample, error) {
	name := b.name()
	lib, err := c.open(b.addr, defaultTTL)
	if err != nil {
		return nil, err
	}
	defer lib.close()
	p, err := startChild(&task{Role: "waiter", Store: b.arena.key, Addr: b.addr, Contender: c.name, TTL: defaultTTL, Name: name})
	if err != nil {
		return nil, err
	}
	var times histogram.Histogram
	err = profiled(b.profileFile("handover", c), func() error {
		m := lib.mutex(name)
		for end := time.Now().Add(b.window); time.Now().Before(end); {
			d, err := pass(m, p)
			if err != nil {
				return err
			}
			times.Add(d)
		}
		return p.say(false)
	})
	if err := errors.Join(err, p.end(err == nil)); err != nil {
		return nil, err
	}
	return sampleOf(&times), nil
}

func sampleOf(h *histogram.Histogram) sample {
	return sample{"p50": micros(h.Quantile(0.5)), "p99": micros(h.Quantile(0.99)), "n": float64(h.N)}
}

// pass passes a lock to another process and returns how long that took.
func pass(m mutex, to *child) (time.Duration, error) {
	h, err := lockSurely(m)
	if err != nil {
		return 0, err
	}
	if err := to.say(true); err != nil {
		return 0, err
	}
	if err := to.hearWord("waiting"); err != nil {
		return 0, err
	}
	time.Sleep(between(waitLeast, waitMost))
	begin, err := now()
	if err != nil {
		return 0, err
	}
	if err := h.Unlock(); err != nil {
		return 0, err
	}
	var end time.Duration
	if err := to.hear(&end); err != nil {
		return 0, err
	}
	return end - begin, nil
}

// waiterRole waits for the lock again and again, and reports when it got it.
func waiterRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	m := lib.mutex(t.Name)
	for {
		var more bool
		if err := parent.hear(&more); err != nil || !more {
			return err
		}
		if err := parent.say("waiting"); err != nil {
			return err
		}
		h, err := lockSurely(m)
		if err != nil {
			return err
		}
		got, err := now()
		if err != nil {
			return err
		}
		if err := h.Unlock(); err != nil {
			return err
		}
		if err := parent.say(got); err != nil {
			return err
		}
	}
}

func between(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }

// now reads a clock that all processes of a machine share, and that nobody can set.
func now() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano()), err
}
