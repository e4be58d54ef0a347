package stile_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/memory"
)

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

// A believer is a process that may believe that it holds the lock.
type believer struct {
	*peer
	mu    sync.Mutex
	lease *stile.Lease
}

func (b *believer) set(l *stile.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lease = l
}

func (b *believer) believes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease != nil && b.lease.Check() == nil
}

// simulate runs a few processes for four minutes of virtual time.
func simulate(w *world, r *rand.Rand) {
	const ttl = 2 * time.Second
	var (
		all    []*believer
		wg     sync.WaitGroup
		mu     sync.Mutex
		tokens []int64
		grants int
		losses int
		end    = time.Now().Add(4 * time.Minute)
	)
	for range 4 {
		b := &believer{peer: w.join(nil)}
		all = append(all, b)
		mine := newRand(r.Int64())
		wg.Go(func() {
			l := b.Mutex("x").With(stile.LockOptions{TTL: ttl, Linger: time.Duration(mine.IntN(2)) * 20 * time.Millisecond})
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(mine.IntN(8000))*time.Millisecond)
				lease, err := l.Lock(ctx)
				cancel()
				if err != nil {
					<-time.After(time.Duration(mine.IntN(100)) * time.Millisecond)
					continue
				}
				mu.Lock()
				grants++
				tokens = append(tokens, lease.Token())
				mu.Unlock()
				b.set(lease)
				select {
				case <-lease.Context().Done():
				case <-time.After(time.Duration(mine.IntN(3000)) * time.Millisecond):
				}
				b.set(nil)
				if err := lease.Unlock(); errors.Is(err, stile.ErrLost) {
					mu.Lock()
					losses++
					mu.Unlock()
				}
			}
		})
	}
	faults := []func(*believer){
		func(b *believer) { b.d.SetLink(memory.Silent) },
		func(b *believer) { b.d.SetLink(memory.Refused) },
		func(b *believer) { b.d.SetLink(memory.Deaf) },
		func(b *believer) { b.d.Inject(memory.Fault{Times: 1 + r.IntN(3), Lose: true}) },
		func(b *believer) { b.d.Inject(memory.Fault{Times: 1 + r.IntN(3), Drop: true}) },
		func(b *believer) {
			b.d.Inject(memory.Fault{Times: 1 + r.IntN(4), Before: time.Duration(r.IntN(3000)) * time.Millisecond, Late: true})
		},
		func(b *believer) {
			b.d.Inject(memory.Fault{Times: 1 + r.IntN(4), After: time.Duration(r.IntN(3000)) * time.Millisecond})
		},
		func(b *believer) { b.d.Heal() },
		func(b *believer) { b.d.Heal() },
		func(b *believer) { b.d.Heal() },
	}
	for time.Now().Before(end) {
		<-time.After(time.Duration(1+r.IntN(40)) * time.Millisecond)
		var holders []int
		for i, b := range all {
			if b.believes() {
				holders = append(holders, i)
			}
		}
		if len(holders) > 1 {
			w.Fatalf("%v believe that they hold", holders)
		}
		if r.IntN(20) == 0 {
			faults[r.IntN(len(faults))](all[r.IntN(len(all))])
		}
	}
	for _, b := range all {
		b.d.Heal()
	}
	wg.Wait()
	if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
		w.Error("tokens did not rise with every grant")
	}
	if grants < 20 || losses == 0 {
		w.Errorf("%d grants, %d losses: the run shows nothing", grants, losses)
	}
	pass(ttl + time.Second)
	if n := w.queued("x"); n != 0 {
		w.Errorf("%d claims are left", n)
	}
}
