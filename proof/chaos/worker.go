//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// The names that are locked, and their capacities.
const (
	mutexName  = "chaos/mutex"
	rwName     = "chaos/readers"
	permitName = "chaos/permits"
	permits    = 3
)

// capacities returns the names that are locked in a store with these traits, and their capacities.
func capacities(t driver.Traits) map[string]int64 {
	m := map[string]int64{mutexName: driver.All, rwName: driver.All}
	if t.Permits {
		m[permitName] = permits
	}
	return m
}

// A way is one kind of lock on a name.
type way struct {
	lock   *stile.Lock
	weight int64
}

// ways returns the locks that workers use.
func ways(c *stile.Client) []way {
	list := []way{{c.Mutex(mutexName), driver.All}, {c.Writer(rwName), driver.All}}
	if c.Traits().Shared {
		list = append(list, way{c.Reader(rwName), 1})
	}
	if c.Traits().Permits {
		list = append(list, way{c.Permit(permitName, 1, permits), 1})
	}
	return list
}

// wholes returns a lock for the whole of each name.
func wholes(c *stile.Client) []*stile.Lock {
	list := []*stile.Lock{c.Mutex(mutexName), c.Writer(rwName)}
	if c.Traits().Permits {
		list = append(list, c.Permit(permitName, permits, permits))
	}
	return list
}

// ttl is the lease of all locks.
const ttl = 3 * time.Second

// A worker is a process that locks and unlocks until its input ends. It reports its beliefs, a line for each event:
//
//	begin HOLD NAME WEIGHT TOKEN CALL TIME UNTIL   asked for at CALL, held at TIME, for as long as UNTIL if it is not renewed
//	still HOLD TIME UNTIL                          held at TIME
//	leave HOLD TIME                                not given back before TIME
//	over HOLD FATE TIME                            not trusted any more at TIME, or given back before it
//	error TEXT
type worker struct {
	blind bool // it goes on believing that it holds after its lease is over
	desk  *desk

	mu    sync.Mutex // guards what follows
	out   *bufio.Writer
	holds int
}

func (w *worker) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format+"\n", args...)
	w.out.Flush()
}

// work runs a worker process.
func work(b *brief, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the runner closes it or dies
		cancel()
	}()
	w := &worker{blind: b.blind, out: bufio.NewWriter(out)}
	var err error
	if w.desk, err = reach(b.register); err != nil {
		return err
	}
	c, err := open(ctx, b.url)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for g := range uint64(4) {
		all.Go(func() { w.loop(ctx, c, rand.New(rand.NewPCG(b.seed, g))) })
	}
	all.Wait()
	return c.Close()
}

// open opens a client, and tries until it succeeds or ctx ends.
func open(ctx context.Context, url string) (*stile.Client, error) {
	for {
		c, err := stile.Open(ctx, url, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// loop takes one of the locks after the other, until ctx ends.
func (w *worker) loop(ctx context.Context, c *stile.Client, r *rand.Rand) {
	list := ways(c)
	for ctx.Err() == nil {
		k := list[r.IntN(len(list))]
		patient, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(4000))*time.Millisecond)
		take := k.lock.Lock
		if r.IntN(4) == 0 {
			take = k.lock.TryLock
		}
		call := boottime.Now()
		lease, err := take(patient)
		cancel()
		if err == nil {
			w.hold(ctx, lease, k.weight, call, length(r))
			continue
		}
		if !expected(err) && ctx.Err() == nil {
			w.say("error %v", err)
		}
		pause(ctx, time.Duration(r.IntN(20))*time.Millisecond)
	}
}

// expected reports whether faults may make a call end like this.
func expected(err error) bool {
	for _, e := range []error{stile.ErrHeld, stile.ErrLost, stile.ErrUnknown, stile.ErrUnreachable,
		context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// length draws how long a lock is held: mostly a moment, now and then longer than its lease.
func length(r *rand.Rand) time.Duration {
	if r.IntN(40) == 0 {
		return ttl + time.Duration(r.IntN(2000))*time.Millisecond
	}
	return time.Duration(r.IntN(30)) * time.Millisecond
}

// hold reports the lock as held for as long as its lease can be trusted, and then releases it; call is when it was asked
// for. Under a lock that no one shares it updates the resource of the name, with the token, and does not ask before it writes.
func (w *worker) hold(ctx context.Context, lease *stile.Lease, weight int64, call, length time.Duration) {
	w.mu.Lock()
	w.holds++
	id := w.holds
	w.mu.Unlock()
	begin := boottime.Now()
	until := begin + time.Until(lease.Deadline())
	if lease.Check() == nil {
		w.say("begin %d %s %d %d %d %d %d", id, lease.Name(), weight, lease.Ticket(), call, begin, until)
	}
	var seen map[mode]*Update
	if weight == driver.All {
		seen = w.desk.read(lease.Name(), lease.Token(), fenced)
	}
	for w.trusts(lease) && boottime.Now() < begin+length {
		pause(ctx, 5*time.Millisecond)
		now := boottime.Now()
		until := now + time.Until(lease.Deadline())
		if w.trusts(lease) {
			w.say("still %d %d %d", id, now, until)
		}
	}
	w.desk.write(seen[fenced])
	if err := lease.Check(); err != nil {
		w.say("over %d %d %d", id, fateOf(err), boottime.Now())
	} else {
		w.say("leave %d %d", id, boottime.Now())
	}
	end := fateOf(lease.Unlock())
	w.say("over %d %d %d", id, end, boottime.Now())
}

// fateOf returns the fate of a hold from its lease's end or the error of its release.
func fateOf(err error) fate {
	var lost *stile.LostError
	switch {
	case err == nil:
		return freed
	case errors.As(err, &lost) && lost.Reason == stile.ReasonExpired:
		return expired
	case errors.Is(err, stile.ErrLost):
		return gone
	}
	return leaving
}

func (w *worker) trusts(lease *stile.Lease) bool { return w.blind || lease.Check() == nil }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
