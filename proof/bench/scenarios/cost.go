//go:build unix

package main

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/stilelock/stile"
)

// The cost of locks while nothing happens to them, and in memory.

const many = 1000

// allocations counts the allocations of the whole process while one goroutine locks and unlocks.
func allocations(r *run) ([]figure, error) {
	const turns = 10_000
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	l := c.Mutex(r.name)
	var before, after runtime.MemStats
	for i := range 2 * turns {
		if i == turns { // everything that is made once has been made
			runtime.ReadMemStats(&before)
		}
		if err := lockAndUnlock(l); err != nil {
			return nil, err
		}
	}
	runtime.ReadMemStats(&after)
	return []figure{
		{Name: "allocations of lock and unlock", Value: float64(after.Mallocs-before.Mallocs) / turns},
		{Name: "bytes of lock and unlock", Value: float64(after.TotalAlloc-before.TotalAlloc) / turns},
	}, nil
}

// hold takes many names.
func (r *run) hold(c *stile.Client) ([]*stile.Lease, error) {
	var leases []*stile.Lease
	for i := range many {
		lease, err := c.Mutex(r.name + "/" + strconv.Itoa(i)).Lock(context.Background())
		if err != nil {
			return nil, errors.Join(err, release(leases))
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

func release(leases []*stile.Lease) error {
	var errs []error
	for _, lease := range leases {
		errs = append(errs, lease.Unlock())
	}
	return errors.Join(errs...)
}

// renewing measures the processor time while many leases are held, each of which is renewed three times per window.
func renewing(r *run) ([]figure, error) {
	r.ttl = max(r.window, 500*time.Millisecond)
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	leases, err := r.hold(c)
	if err != nil {
		return nil, err
	}
	time.Sleep(r.window / 4)
	begin, before := time.Now(), used()
	time.Sleep(2 * r.ttl)
	ms := float64(used()-before) / float64(time.Millisecond) / time.Since(begin).Seconds()
	return []figure{{Name: "1,000 held leases, processor ms/s", Value: ms}}, release(leases)
}

// used returns the time that the processor has worked for this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns how many bytes are in use after a collection, the least of some looks.
func heap() float64 {
	least := 0.0
	for i := range 3 {
		runtime.GC()
		runtime.GC() // the first may leave what finalizers and pools held
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if now := float64(m.HeapAlloc); i == 0 || now < least {
			least = now
		}
	}
	return least
}

// per returns how much each of many adds to the heap, at least 0, since a collection may have freed memory meanwhile.
func per(before float64) float64 { return max(0, heap()-before) / many }

func heldBytes(r *run) ([]figure, error) {
	c, err := r.client()
	if err == nil {
		err = lockAndUnlock(c.Mutex(r.name))
	}
	if err != nil {
		return nil, err
	}
	before := heap()
	leases, err := r.hold(c)
	if err != nil {
		return nil, err
	}
	bytes := per(before)
	return []figure{{Name: "heap bytes of a held lease", Value: bytes}}, release(leases)
}

func waiterBytes(r *run) ([]figure, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	l := c.Mutex(r.name)
	lease, err := l.Lock(context.Background())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	wait := func() {
		all.Go(func() { _, _ = l.Lock(ctx) }) // it only ends when ctx does, with an error
	}
	wait() // the first waiter's own part is not counted
	time.Sleep(r.window / 4)
	before := heap()
	for range many {
		wait()
	}
	time.Sleep(r.window / 4) // until all of them wait
	bytes := per(before)
	cancel()
	all.Wait()
	return []figure{{Name: "heap bytes of a local waiter", Value: bytes}}, lease.Unlock()
}
