//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// A waiter gives up after this time, and now and then sooner.
const patient = 30 * time.Second

// A peerWorker is a worker that drives a peer. Beside the reports of any worker it reports each wait:
//
//	ask HOLD NAME TIME     asked for at TIME
//	quit HOLD TIME         not had, and not waited for any more
//
// The number of a hold, modulo the number of waiters, is its waiter's number.
type peerWorker struct {
	worker
	peer  *peer
	locks locker
}

// workPeer runs a worker process that drives a peer.
func workPeer(b *brief, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the runner closes it or dies
		cancel()
	}()
	w := &peerWorker{worker: worker{out: bufio.NewWriter(out)}, peer: peers[b.peer]}
	var err error
	if w.desk, err = reach(b.register); err != nil {
		return err
	}
	if w.locks, err = openPeer(ctx, w.peer, strings.Split(b.url, ",")); err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() { w.wait(ctx, i, rand.New(rand.NewPCG(b.seed, uint64(i)))) })
	}
	all.Wait()
	w.locks.close()
	return nil
}

// openPeer opens a client of a peer, and tries until it succeeds or ctx ends.
func openPeer(ctx context.Context, p *peer, addrs []string) (locker, error) {
	for {
		l, err := p.open(addrs)
		if err == nil {
			return l, nil
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return nil, err
		}
	}
}

// wait takes one of the names after the other, until ctx ends.
func (w *peerWorker) wait(ctx context.Context, waiter int, r *rand.Rand) {
	for id := waiter; ctx.Err() == nil; id += waiters {
		name := peerNames[r.IntN(len(peerNames))]
		call := boottime.Now()
		w.say("ask %d %s %d", id, name, call)
		// The context outlives the call: with some libraries a hold only lasts as long as its context.
		asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ending := context.AfterFunc(ctx, cancel)
		most := patient
		if w.peer.endless {
			most = longest
		}
		if r.IntN(4) == 0 && !w.peer.endless {
			most = time.Duration(1+r.IntN(4000)) * time.Millisecond
		}
		late := time.AfterFunc(most, cancel)
		h, err := w.locks.lock(asking, waiter, name)
		late.Stop()
		ending()
		if err == nil {
			w.keep(ctx, h, id, name, call, long(r))
		}
		w.say("quit %d %d", id, boottime.Now())
		cancel()
		if err != nil {
			pause(ctx, time.Duration(20+r.IntN(80))*time.Millisecond)
		}
	}
}

// long draws how long a peer's lock is held: mostly a moment, once in 24 times for longer than its lease.
func long(r *rand.Rand) time.Duration {
	if r.IntN(24) == 0 {
		return ttl + time.Duration(r.IntN(2000))*time.Millisecond
	}
	return time.Duration(r.IntN(30)) * time.Millisecond
}

// keep holds a lock while it is trusted, updates the resources meanwhile, and releases it.
func (w *peerWorker) keep(ctx context.Context, h holding, id int, name string, call, length time.Duration) {
	begin := boottime.Now()
	trusted := h.trusted()
	if trusted {
		w.say("begin %d %s %d %d %d %d %d", id, name, driver.All, h.token(), call, begin, begin)
		modes := []mode{plain, asked, fenced}
		if w.peer.token == "" {
			modes = modes[:2]
		}
		seen := w.desk.read(name, h.token(), modes...)
		for trusted && boottime.Now() < begin+length && ctx.Err() == nil {
			pause(ctx, 5*time.Millisecond)
			if trusted = w.still(h, id); !trusted {
				w.say("over %d %d %d", id, gone, boottime.Now())
			}
		}
		pause(ctx, begin+length-boottime.Now()) // a writer that does not ask finishes its work
		if h.trusted() {
			w.desk.write(seen[asked])
		}
		w.desk.write(seen[fenced])
		w.desk.write(seen[plain])
	}
	if trusted {
		w.say("leave %d %d", id, boottime.Now())
	}
	end := leaving
	if h.unlock() == nil {
		end = freed
	}
	if trusted {
		w.say("over %d %d %d", id, end, boottime.Now())
	}
}

// still reports the lock as held at the moment before the library was asked, if the library says so.
func (w *peerWorker) still(h holding, id int) bool {
	now := boottime.Now()
	trusted := h.trusted()
	if trusted {
		w.say("still %d %d %d", id, now, now)
	}
	return trusted
}
