//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/internal/system"
)

// lockAndUnlock returns the work of one client.
func lockAndUnlock(l *stile.Lock) func() error {
	return func() error {
		lease, err := l.Lock(context.Background())
		if err != nil {
			return err
		}
		return lease.Unlock()
	}
}

// A load is what some work took.
type load struct {
	done int64
	took time.Duration
	cpu  []float64 // seconds, of this process and then of each server
}

// rate is the work per second.
func (l *load) rate() float64 { return float64(l.done) / l.took.Seconds() }

// micros is the processor time per work of a process, in microseconds.
func (l *load) micros(process int) float64 { return l.cpu[process] / float64(l.done) * 1e6 }

// load does the works over and over, each in a goroutine of its own, for the window after a quarter of it. While nothing was done,
// another window follows: on a busy machine, 64 sessions of Consul end later than a short window does.
func (r *run) load(works []func() error, servers ...*servertest.Server) (*load, error) {
	var done atomic.Int64
	var stop atomic.Bool
	errs := make([]error, len(works))
	var all sync.WaitGroup
	for i, work := range works {
		all.Go(func() {
			for !stop.Load() && errs[i] == nil {
				errs[i] = work()
				done.Add(1)
			}
		})
	}
	time.Sleep(r.window / 4)
	end, err := usage(servers)
	before := done.Load()
	time.Sleep(r.window)
	for until := time.Now().Add(patience); done.Load() == before && time.Now().Before(until); {
		time.Sleep(r.window)
	}
	l := &load{done: done.Load() - before}
	if err == nil {
		l.took, l.cpu, err = end()
	}
	stop.Store(true)
	all.Wait()
	if l.done == 0 {
		err = errors.Join(err, fmt.Errorf("nothing was done within %v", patience))
	}
	return l, errors.Join(append(errs, err)...)
}

// usage begins to measure this process and some servers. The function that it returns gives the processor seconds of each since
// then.
func usage(servers []*servertest.Server) (func() (time.Duration, []float64, error), error) {
	pids := []int{os.Getpid()}
	for _, s := range servers {
		pids = append(pids, s.Pid())
	}
	before, err := system.Worked(pids)
	begun := time.Now()
	return func() (time.Duration, []float64, error) {
		after, err := system.Worked(pids)
		took := time.Since(begun)
		var all []float64
		for _, pid := range pids {
			if _, runs := after[pid]; !runs {
				return took, nil, fmt.Errorf("process %d has ended", pid)
			}
			all = append(all, after[pid]-before[pid])
		}
		return took, all, err
	}, err
}
