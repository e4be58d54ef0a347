//go:build unix

package main

import (
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// count adds up the counters of all servers.
func (b *bench) count() (counts, error) {
	sum, err := b.arena.count(b.server)
	if err != nil || b.arena.counted == 0 {
		return sum, err
	}
	for _, addr := range strings.Split(b.addr, ",")[1 : 1+b.arena.counted] {
		more, err := b.arena.count(&servertest.Server{Addr: addr})
		if err != nil {
			return nil, err
		}
		for what, n := range more {
			sum[what] += n
		}
	}
	return sum, nil
}

// load returns the server's work per second, measured over some time.
func (b *bench) load(c contender, span time.Duration) (sample, error) {
	begin := time.Now()
	before, err := b.count()
	if err != nil {
		return nil, err
	}
	time.Sleep(span)
	after, err := b.count()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	requests, commands := after.since(before, c.inside)
	sent := after[sentMessages] - before[sentMessages]
	return sample{
		"requests": float64(requests) / seconds, "commands": float64(commands) / seconds, "messages": float64(sent) / seconds,
	}, nil
}

// A footprint is the memory and the goroutines of a process.
type footprint struct{ Heap, Stack, Goroutines float64 }

// measureFootprint takes the least of a few looks, since work that is under way at the moment adds to it.
func measureFootprint() footprint {
	var least footprint
	for i := range 5 {
		runtime.GC()
		runtime.GC() // the first may leave what finalizers and pools held
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f := footprint{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
		if i == 0 {
			least = f
		}
		least = footprint{min(least.Heap, f.Heap), min(least.Stack, f.Stack), min(least.Goroutines, f.Goroutines)}
		time.Sleep(20 * time.Millisecond)
	}
	return least
}

// per returns how much each of n things adds to an earlier footprint.
func (f footprint) per(n int, before footprint) footprint {
	d := float64(n)
	return footprint{(f.Heap - before.Heap) / d, (f.Stack - before.Stack) / d, (f.Goroutines - before.Goroutines) / d}
}

// each runs a task that reports how much each of its things takes up.
func each(t *task) (sample, error) {
	p, err := startChild(t)
	if err != nil {
		return nil, err
	}
	var each footprint
	err = p.hear(&each)
	if err := errors.Join(err, p.end(err == nil)); err != nil {
		return nil, err
	}
	return sample{"heap": each.Heap, "stack": each.Stack, "goroutines": each.Goroutines}, nil
}
