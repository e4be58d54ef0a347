//go:build unix

package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/internal/histogram"
)

// The cost of holding very many names.

const (
	multitude = 100_000
	released  = 0.6 // the part of them whose release is timed
	paused    = time.Millisecond

	onBusy = ", busy machine"
)

func (b *bench) holdingMany() *measure {
	return &measure{
		key: "many", title: "100,000 held names", slow: true, each: b.idle + 12*time.Second,
		about: fmt.Sprintf("One process holds 100,000 names with a ttl of %v. For %v it locks and unlocks one more name each %v, beside the renewals; the "+
			"times are those of the unlock. Then %d goroutines release 60,000 of the names. On a busy machine, a process for each core computes all "+
			"the while.", defaultTTL, b.idle, paused, contentionSize),
		columns: []column{
			{"p50", "unlock p50 ms", 2}, {"p99", "unlock p99 ms", 2}, {"max", "unlock max ms", 1}, {"release", "s to release 60,000", 2},
			{"requests", "requests/s", 0},
		},
		rows: []*row{
			{name: ours, run: func() (sample, error) { return b.manyOne(ours, 0) }},
			{name: ours + onBusy, run: func() (sample, error) { return b.manyOne(ours, runtime.NumCPU()) }},
			{name: bareExpire, run: func() (sample, error) { return b.manyOne(bareExpire, 0) }},
		},
	}
}

// A freeing has the times of unlocks.
type freeing struct {
	Unlocks histogram.Histogram
	Release time.Duration
}

// manyOne measures while a number of other processes compute.
func (b *bench) manyOne(name string, busy int) (_ sample, err error) {
	c := b.arena.find(name)
	t := task{
		Role: "many", Store: b.arena.key, Addr: b.addr, Contender: c.name, TTL: defaultTTL, Name: b.name(), Size: multitude, Span: b.idle,
		Profile: b.profileFile("many", c),
	}
	if b.brief {
		t.Size = 200
	}
	var all []*child
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.end(err == nil))
		}
	}()
	for range busy {
		p, err := startChild(&task{Role: "compute"})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	p, err := startChild(&t)
	if err != nil {
		return nil, err
	}
	all = append(all, p)
	if err := p.hearWord("holding"); err != nil {
		return nil, err
	}
	s, err := b.load(c, b.idle)
	if err != nil {
		return nil, err
	}
	var f freeing
	if err := p.hear(&f); err != nil {
		return nil, err
	}
	s["p50"], s["p99"], s["max"] = millis(f.Unlocks.Quantile(0.5)), millis(f.Unlocks.Quantile(0.99)), millis(f.Unlocks.Most)
	s["release"] = f.Release.Seconds()
	return s, nil
}

// manyRole holds very many names, and releases them.
func manyRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	all := make([]held, t.Size)
	err = together(len(all), func(i int) (err error) {
		all[i], err = lockSurely(lib.mutex(fmt.Sprintf("%s/%d", t.Name, i)))
		return err
	})
	if err != nil {
		return err
	}
	if err := parent.say("holding"); err != nil {
		return err
	}
	var f freeing
	m := lib.mutex(t.Name)
	for end := time.Now().Add(t.Span); time.Now().Before(end); time.Sleep(paused) {
		h, err := lockSurely(m)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := h.Unlock(); err != nil {
			return err
		}
		f.Unlocks.Add(time.Since(begin))
	}
	first := int(released * float64(len(all)))
	begin := time.Now()
	err = together(first, func(i int) error { return all[i].Unlock() })
	f.Release = time.Since(begin)
	if err := errors.Join(err, together(len(all)-first, func(i int) error { return all[first+i].Unlock() })); err != nil {
		return err
	}
	return parent.say(&f)
}

// together calls do n times, in some goroutines.
func together(n int, do func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, contentionSize)
	for g := range contentionSize {
		all.Go(func() {
			for i := g; i < n && errs[g] == nil; i += contentionSize {
				errs[g] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// computeRole keeps a core busy until the parent ends it.
func computeRole(_ *task, parent *lines) error {
	var over atomic.Bool
	go func() {
		var nothing any
		_ = parent.hear(&nothing) // only the end of the input matters
		over.Store(true)
	}()
	for n := uint64(1); !over.Load(); n++ {
		n ^= n << 13 // this is the work
	}
	return nil
}
