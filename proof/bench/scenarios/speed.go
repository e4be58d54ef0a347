//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile"
)

// How fast locks are taken and handed on.

const (
	goroutines = 64
	linger     = 10 * time.Millisecond
)

func lockAndUnlock(l *stile.Lock) error {
	lease, err := l.Lock(context.Background())
	if err != nil {
		return err
	}
	return lease.Unlock()
}

// p50 calls once again and again for the window, at least once, and returns the median of its results, in microseconds.
func (r *run) p50(once func() (time.Duration, error)) (float64, error) {
	begin := time.Now().Add(r.window / 4)
	end := begin.Add(r.window)
	times := make([]time.Duration, 0, 1<<20)
	for now := time.Now(); now.Before(end) || len(times) == 0; now = time.Now() {
		d, err := once()
		if err != nil {
			return 0, err
		}
		r.did.Add(1)
		if now.After(begin) {
			times = append(times, d)
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2]) / float64(time.Microsecond), nil
}

// rate lets goroutines lock and unlock one lock each, and returns how often per second of the window they did.
func (r *run) rate(locks []*stile.Lock) (float64, error) {
	return r.turns(len(locks), func(i int) error { return lockAndUnlock(locks[i]) })
}

// turns lets goroutines take a turn again and again, and returns their rate per second in the window. If the machine stood
// still for the whole window, the window lasts until the first turn.
func (r *run) turns(goroutines int, turn func(i int) error) (float64, error) {
	begin := time.Now().Add(r.window / 4)
	end := begin.Add(r.window)
	var all sync.WaitGroup
	var within atomic.Bool // somebody had a turn in the window
	counts, errs := make([]int, goroutines), make([]error, goroutines)
	for i := range goroutines {
		all.Go(func() {
			n, did := 0, 0
			for now := time.Now(); (now.Before(end) || n == 0 && !within.Load()) && errs[i] == nil; now = time.Now() {
				errs[i] = turn(i)
				did++
				if now.After(begin) {
					if n++; n == 1 && now.Before(end) {
						within.Store(true)
					}
				}
			}
			counts[i] = n
			r.did.Add(int64(did))
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	span := r.window
	if !within.Load() {
		span = time.Since(begin)
	}
	return float64(sum) / span.Seconds(), errors.Join(errs...)
}

func alone(r *run) ([]figure, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	l := c.Mutex(r.name)
	p50, err := r.p50(func() (time.Duration, error) {
		begin := time.Now()
		err := lockAndUnlock(l)
		return time.Since(begin), err
	})
	return []figure{{Name: "alone, p50 µs", Value: p50}}, err
}

// each makes a lock for each goroutine.
func (r *run) each(clients int, lock func(c *stile.Client, i int) *stile.Lock) ([]*stile.Lock, error) {
	var locks []*stile.Lock
	for range clients {
		c, err := r.client()
		if err != nil {
			return nil, err
		}
		for range goroutines / clients {
			locks = append(locks, lock(c, len(locks)))
		}
	}
	return locks, nil
}

// rated is a scenario of goroutines that lock without a pause.
func (r *run) rated(name string, clients int, lock func(c *stile.Client, i int) *stile.Lock) ([]figure, error) {
	locks, err := r.each(clients, lock)
	if err != nil {
		return nil, err
	}
	rate, err := r.rate(locks)
	return []figure{{Name: name, Value: rate, Higher: true}}, err
}

func fewApart(r *run) ([]figure, error) {
	const few = 8
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	var locks []*stile.Lock
	for i := range few {
		locks = append(locks, r.own(c, i))
	}
	rate, err := r.rate(locks)
	return []figure{{Name: "8 goroutines on 8 names, /s", Value: rate, Higher: true}}, err
}

func apart(r *run) ([]figure, error) {
	return r.rated("64 goroutines on 64 names, /s", 1, r.own)
}

// own returns the lock of one goroutine's own name.
func (r *run) own(c *stile.Client, i int) *stile.Lock { return c.Mutex(r.name + "/" + strconv.Itoa(i)) }

func lingeringApart(r *run) ([]figure, error) {
	return r.rated("64 goroutines on 64 names, Linger, /s", 1, r.lingering)
}

func hot(r *run) ([]figure, error) {
	return r.rated("hot name, 64 goroutines of one client, /s", 1, func(c *stile.Client, _ int) *stile.Lock {
		return c.Mutex(r.name)
	})
}

func fleet(r *run) ([]figure, error) {
	return r.rated("hot name, 8 clients of 8 goroutines, /s", 8, func(c *stile.Client, _ int) *stile.Lock {
		return c.Mutex(r.name)
	})
}

func waiters(n int) func(r *run) ([]figure, error) {
	return func(r *run) ([]figure, error) {
		var locks []*stile.Lock
		for range n {
			c, err := r.client()
			if err != nil {
				return nil, err
			}
			locks = append(locks, c.Mutex(r.name))
		}
		rate, err := r.rate(locks)
		return []figure{{Name: strconv.Itoa(n) + " clients on one name, /s", Value: rate, Higher: true}}, err
	}
}

func readers(r *run) ([]figure, error) {
	return r.rated("64 readers of one name, /s", 1, func(c *stile.Client, _ int) *stile.Lock {
		return c.Reader(r.name)
	})
}

// handOver measures the time from unlock in one client until lock has returned in another client, which has waited for a
// while.
func handOver(r *run) ([]figure, error) {
	locks, err := r.each(2, func(c *stile.Client, _ int) *stile.Lock { return c.Mutex(r.name) })
	if err != nil {
		return nil, err
	}
	from, to := locks[0], locks[len(locks)-1]
	type taking struct {
		at  time.Time
		err error
	}
	p50, err := r.p50(func() (time.Duration, error) {
		lease, err := from.Lock(context.Background())
		if err != nil {
			return 0, err
		}
		taken := make(chan taking, 1)
		go func() {
			other, err := to.Lock(context.Background())
			at := time.Now()
			if err == nil {
				err = other.Unlock()
			}
			taken <- taking{at, err}
		}()
		time.Sleep(5*time.Millisecond + rand.N(5*time.Millisecond)) // so that a polling client is at any point of its delay
		begin := time.Now()
		err = lease.Unlock()
		t := <-taken
		return t.at.Sub(begin), errors.Join(err, t.err)
	})
	return []figure{{Name: "hand-over to another client, p50 µs", Value: p50}}, err
}

func try(r *run) ([]figure, error) {
	locks, err := r.each(2, func(c *stile.Client, _ int) *stile.Lock { return c.Mutex(r.name) })
	if err != nil {
		return nil, err
	}
	lease, err := locks[0].Lock(context.Background())
	if err != nil {
		return nil, err
	}
	p50, err := r.p50(func() (time.Duration, error) {
		begin := time.Now()
		_, err := locks[len(locks)-1].TryLock(context.Background())
		took := time.Since(begin)
		if !errors.Is(err, stile.ErrHeld) {
			return 0, fmt.Errorf("try = %w; want ErrHeld", err)
		}
		return took, nil
	})
	return []figure{{Name: "try of a held name, p50 µs", Value: p50}}, errors.Join(err, lease.Unlock())
}

// lingering returns the mean: one turn is too short for a clock.
func lingering(r *run) ([]figure, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	l := c.Mutex(r.name).With(stile.LockOptions{Linger: linger})
	ns, err := r.nanoseconds(func() error { return lockAndUnlock(l) })
	return []figure{{Name: "linger, ns", Value: ns}}, err
}

// nanoseconds calls once in batches for the window and returns the time of one call.
func (r *run) nanoseconds(once func() error) (float64, error) {
	const batch = 256
	per := make([]float64, 0, 1<<16)
	for end := time.Now().Add(r.window); len(per) == 0 || time.Now().Before(end); {
		begin := time.Now()
		for range batch {
			if err := once(); err != nil {
				return 0, err
			}
		}
		per = append(per, float64(time.Since(begin))/batch)
	}
	slices.Sort(per)
	return per[len(per)/2], nil
}
