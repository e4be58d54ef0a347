//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stilelock/stile/internal/histogram"
)

// own measures processes that share nothing but the store.
func (b *bench) own() *measure {
	return &measure{
		key: "own", title: fmt.Sprintf("Uncontended, %d processes on %d names", processes, processes),
		about:   "Each of eight processes, with a client of its own, locks and unlocks a name of its own.",
		columns: []column{{"rate", "ops/s", 0}, {"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}},
		rows:    b.arena.among(func(c contender) (sample, error) { return b.ownOne("own", c, processes, 1) }, b.arena.uncontended...),
	}
}

// ownOne lets some processes lock and unlock names of their own, the same number each.
func (b *bench) ownOne(measure string, c contender, processes, size int) (s sample, err error) {
	t := task{
		Role: "own", Store: b.arena.key, Addr: b.addr, Contender: c.name, Java: c.java(), TTL: defaultTTL, Size: size,
		Warm: b.warm(c), Span: b.window, Profile: b.profileFile(measure, c),
	}
	var all []*child
	defer func() {
		for _, p := range all {
			if ended := p.end(err == nil); err == nil {
				err = ended
			}
		}
	}()
	for range processes {
		t.Name = b.name()
		p, err := startChild(&t)
		if err != nil {
			return nil, err
		}
		all, t.Profile = append(all, p), ""
	}
	for _, p := range all {
		if err := p.hearWord("ready"); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		if err := p.say("go"); err != nil {
			return nil, err
		}
	}
	var sum histogram.Histogram
	for _, p := range all {
		var times histogram.Histogram
		if err := p.hear(&times); err != nil {
			return nil, err
		}
		sum.Merge(&times)
	}
	s = sampleOf(&sum)
	s["rate"] = float64(sum.N) / b.window.Seconds()
	return s, nil
}

// ownRole is a child with names of its own.
func ownRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	if err := parent.say("ready"); err != nil {
		return err
	}
	if err := parent.hearWord("go"); err != nil {
		return err
	}
	times, errs := make([]histogram.Histogram, t.Size), make([]error, t.Size)
	begin := time.Now().Add(t.Warm)
	var done sync.WaitGroup
	for i := range t.Size {
		done.Go(func() {
			errs[i] = cycle(context.Background(), lib.mutex(t.Name+"/"+strconv.Itoa(i)), &times[i], begin, begin.Add(t.Span))
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var sum histogram.Histogram
	for i := range times {
		sum.Merge(&times[i])
	}
	return parent.say(&sum)
}
