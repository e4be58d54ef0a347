//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// What a lock costs while nothing happens: waiting, and being held.

const (
	waiters   = 100
	renewTTL  = 3 * time.Second // short, so that the window has many renewals
	leases    = 1000
	holderTTL = time.Minute
)

func (b *bench) waiting() *measure {
	return &measure{
		key: "waiting", title: "100 waiters of one process on a held name", slow: true,
		about: "For " + b.idle.String() + ", one client holds the lock, and 100 goroutines that share another wait. Requests are what clients send; commands are " +
			"what the server counts (INFO commandstats), those inside scripts included; both are compared with the target. What " +
			"keeps the holder's lease and the connections alive is counted. redsync and redislock do not renew; their lock is held " +
			"for a minute from the beginning.",
		columns: []column{{"commands", "commands/s", 1}, {"requests", "requests/s", 1}},
		rows:    among(b.waitingOne, crowded...),
	}
}

func (b *bench) waitingOne(c contender) (sample, error) {
	ttl := defaultTTL
	if !c.renews {
		ttl = max(holderTTL, 2*b.idle)
	}
	name := b.name()
	holder, err := c.open(b.server.Addr, ttl)
	if err != nil {
		return nil, err
	}
	defer holder.close()
	h, err := lockSurely(holder.mutex(name))
	if err != nil {
		return nil, err
	}
	defer h.Unlock() //nolint:errcheck // the server ends soon
	lib, err := c.open(b.server.Addr, ttl)
	if err != nil {
		return nil, err
	}
	defer lib.close()
	stop := enqueue(lib, name, waiters)
	time.Sleep(b.settle)
	s, err := b.load(c, b.idle)
	return s, errors.Join(err, stop())
}

// enqueue lets goroutines wait for a lock, until the function that it returns is called.
func enqueue(lib library, name string, n int) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	got := make(chan error, n)
	for range n {
		done.Go(func() {
			_, err := lib.mutex(name).lock(ctx)
			if err == nil {
				err = errors.New("a waiter had the lock while it was held")
			} else if ctx.Err() != nil {
				err = nil
			}
			got <- err
		})
	}
	return func() error {
		cancel()
		done.Wait()
		close(got)
		var all []error
		for err := range got {
			all = append(all, err)
		}
		return errors.Join(all...)
	}
}

// load returns what the server has to do in a second, measured over some time.
func (b *bench) load(c contender, span time.Duration) (sample, error) {
	begin := time.Now()
	before, err := b.counts()
	if err != nil {
		return nil, err
	}
	time.Sleep(span)
	after, err := b.counts()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	requests, commands := after.since(before, c.inside)
	return sample{"requests": float64(requests) / seconds, "commands": float64(commands) / seconds}, nil
}

func (b *bench) holding() *measure {
	return &measure{
		key: "holding", title: "1,000 held leases, renewed", slow: true,
		about: fmt.Sprintf("For %v, one process of its own holds 1,000 names with a ttl of %v. redsync and redislock do not renew: for each lock, a "+
			"goroutine of the benchmark extends it every third of the ttl, as stile does. Requests are compared with the target; "+
			"commands are those inside scripts too. Bytes are of the heap after a collection, beyond what the process had with one "+
			"lock taken and released; stacks are those of goroutines, beside that.", b.idle, renewTTL),
		columns: []column{
			{"requests", "requests/s", 0}, {"commands", "commands/s", 0}, {"heap", "heap bytes/lease", 0},
			{"stack", "stack bytes/lease", 0}, {"goroutines", "goroutines/lease", 3},
		},
		rows: among(b.holdingOne, ours, "redsync", "redislock", "rueidislock"),
	}
}

// A footprint is what a process takes up.
type footprint struct{ Heap, Stack, Goroutines float64 }

// measureFootprint looks a few times, since what is under way at the moment adds to it.
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

// per returns what each of n adds to an earlier footprint.
func (f footprint) per(n int, before footprint) footprint {
	d := float64(n)
	return footprint{(f.Heap - before.Heap) / d, (f.Stack - before.Stack) / d, (f.Goroutines - before.Goroutines) / d}
}

func (b *bench) holdingOne(c contender) (sample, error) {
	p, err := startChild(&task{
		Role: "keeper", Addr: b.server.Addr, Contender: c.name, TTL: renewTTL, Name: b.name(), Size: leases,
		Warm: b.settle, Profile: b.profileFile("holding", c),
	})
	if err != nil {
		return nil, err
	}
	var (
		s    sample
		each footprint
	)
	if err = p.hearWord("holding"); err == nil {
		s, err = b.load(c, b.idle)
	}
	if err == nil {
		err = errors.Join(p.say("measure"), p.hear(&each))
	}
	if err := errors.Join(err, p.end(err == nil)); err != nil {
		return nil, err
	}
	s["heap"], s["stack"], s["goroutines"] = each.Heap, each.Stack, each.Goroutines
	return s, nil
}

// keeperRole holds locks until it is asked what that takes.
func keeperRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	one, err := lockSurely(lib.mutex(t.Name))
	if err == nil {
		err = one.Unlock()
	}
	if err != nil {
		return err
	}
	before := measureFootprint()
	all := make([]held, t.Size)
	for i := range all {
		if all[i], err = lockSurely(lib.mutex(fmt.Sprintf("%s/%d", t.Name, i))); err != nil {
			return err
		}
		if r, ok := all[i].(renewable); ok {
			go keep(ctx, r, t.TTL)
		}
	}
	time.Sleep(t.Warm)
	if err := errors.Join(parent.say("holding"), parent.hearWord("measure")); err != nil {
		return err
	}
	after := measureFootprint()
	runtime.KeepAlive(all)
	return parent.say(after.per(t.Size, before))
}

// A renewable lock is one that its holder has to renew.
type renewable interface {
	extend(ctx context.Context) error
}

// keep renews a lock until ctx ends.
func keep(ctx context.Context, r renewable, ttl time.Duration) {
	every := time.NewTicker(ttl / 3)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if err := r.extend(ctx); err != nil && ctx.Err() == nil {
				panic(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (b *bench) queueing() *measure {
	return &measure{
		key: "queueing", title: "1,000 waiters of one process on a held name", slow: true,
		about: "A process of its own, where one client holds the lock and goroutines that share another wait. Bytes as before, " +
			"beyond what the process had with one waiter. The last row is what a goroutine takes up that waits for a channel and a " +
			"context, with no library: part of each of the others.",
		columns: []column{
			{"heap", "heap bytes/waiter", 0}, {"stack", "stack bytes/waiter", 0}, {"goroutines", "goroutines/waiter", 3},
		},
		rows: append(among(b.queueingOne, ours, "redsync", "redislock", "rueidislock"), &row{
			name: bare, run: func() (sample, error) { return b.queueingOne(contender{name: bare}) },
		}),
	}
}

const bare = "a bare goroutine"

// A bareLibrary has no locks: everybody waits.
type bareLibrary struct{ never chan struct{} }

func (l bareLibrary) mutex(string) mutex { return l }
func (l bareLibrary) close()             {}

func (l bareLibrary) lock(ctx context.Context) (held, error) {
	select {
	case <-l.never:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *bench) queueingOne(c contender) (sample, error) {
	p, err := startChild(&task{
		Role: "queue", Addr: b.server.Addr, Contender: c.name, TTL: holderTTL, Name: b.name(), Size: leases, Warm: b.settle,
	})
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

// queueRole lets goroutines wait and tells what that takes.
func queueRole(t *task, parent *lines) error {
	if t.Contender == bare {
		each, err := t.queue(bareLibrary{})
		return errors.Join(err, parent.say(each))
	}
	holder, err := t.open()
	if err != nil {
		return err
	}
	defer holder.close()
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	h, err := lockSurely(holder.mutex(t.Name))
	if err != nil {
		return err
	}
	each, err := t.queue(lib)
	if err := errors.Join(err, h.Unlock()); err != nil {
		return err
	}
	return parent.say(each)
}

// queue lets goroutines wait for a lock that is held and returns what each of them takes up.
func (t *task) queue(lib library) (footprint, error) {
	stop := enqueue(lib, t.Name, 1)
	time.Sleep(t.Warm)
	before := measureFootprint()
	stopAll := enqueue(lib, t.Name, t.Size)
	time.Sleep(t.Warm)
	after := measureFootprint()
	return after.per(t.Size, before), errors.Join(stop(), stopAll())
}
