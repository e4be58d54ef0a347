//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/rpc"
	"net/rpc/jsonrpc"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// A waiter gives up after this, and now and then sooner.
const patient = 30 * time.Second

// A peerWorker is a worker that drives a peer. Beside what a worker says, it says of each wait:
//
//	ask HOLD NAME TIME     asked for at TIME
//	quit HOLD TIME         not had, and not waited for any more
//
// The holds of a waiter are those whose number, divided by the number of waiters, leaves its own.
type peerWorker struct {
	worker
	peer      *peer
	locks     locker
	resources *rpc.Client
}

// workPeer is the program of a worker process that drives a peer.
func workPeer(b *brief, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the runner closes it or is gone
		cancel()
	}()
	w := &peerWorker{worker: worker{out: bufio.NewWriter(out)}, peer: peers[b.peer]}
	var err error
	if w.resources, err = jsonrpc.Dial("tcp", b.register); err != nil {
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

// openPeer opens a client of a peer, for as long as it takes.
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
		// The context stays when the lock is had: of some libraries the hold lasts only as long.
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

// long is how long a peer's lock is held: mostly a moment, one of 24 for longer than its lease.
func long(r *rand.Rand) time.Duration {
	if r.IntN(24) == 0 {
		return ttl + time.Duration(r.IntN(2000))*time.Millisecond
	}
	return time.Duration(r.IntN(30)) * time.Millisecond
}

// keep holds a lock for as long as it is trusted, updates the resources meanwhile, and gives it back.
func (w *peerWorker) keep(ctx context.Context, h holding, id int, name string, call, length time.Duration) {
	begin := boottime.Now()
	trusted := h.trusted()
	if trusted {
		w.say("begin %d %s %d %d %d %d %d", id, name, driver.All, h.token(), call, begin, begin)
		seen := w.read(name, h.token())
		for trusted && boottime.Now() < begin+length && ctx.Err() == nil {
			pause(ctx, 5*time.Millisecond)
			if trusted = w.still(h, id); !trusted {
				w.say("over %d %d %d", id, gone, boottime.Now())
			}
		}
		pause(ctx, begin+length-boottime.Now()) // a writer that does not ask goes on with its work
		if h.trusted() {
			w.write(seen[asked])
		}
		w.write(seen[fenced])
		w.write(seen[plain])
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

// still says that a lock is held at a moment before it was asked, if it is.
func (w *peerWorker) still(h holding, id int) bool {
	now := boottime.Now()
	trusted := h.trusted()
	if trusted {
		w.say("still %d %d %d", id, now, now)
	}
	return trusted
}

// read reads the resources of a name. What is left out of its answer is not to be written.
func (w *peerWorker) read(name string, token int64) map[mode]*Update {
	seen := map[mode]*Update{}
	for _, m := range []mode{plain, asked, fenced} {
		if m == fenced && w.peer.token == "" {
			continue
		}
		var a Answer
		u := &Update{Cell: cell{name, m}, Token: token}
		if err := w.resources.Call("Register.Do", u, &a); err == nil && !a.Refused {
			seen[m] = &Update{u.Cell, token, a.Value + 1, true}
		}
	}
	return seen
}

func (w *peerWorker) write(u *Update) {
	if u != nil {
		_ = w.resources.Call("Register.Do", u, &Answer{}) // the register counts what it refuses
	}
}
