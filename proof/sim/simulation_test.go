package sim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

// A skewed driver belongs to a client whose clock is slower than the store's: by the client's clock the store's leases are
// shorter than their TTL.
type skewed struct {
	*memory.Driver
	part float64
}

func (d skewed) shorter(c *driver.Claim) *driver.Claim {
	short := *c
	short.TTL = time.Duration(d.part * float64(c.TTL))
	short.Wait = min(c.Wait, short.TTL)
	return &short
}

func (d skewed) longer(ttl time.Duration) time.Duration { return time.Duration(float64(ttl) / d.part) }

func (d skewed) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := d.Driver.Enter(ctx, d.shorter(c))
	p.TTL = d.longer(p.TTL)
	return p, err
}

func (d skewed) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	short := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		short[i] = d.shorter(c)
	}
	all := d.Driver.Renew(ctx, short)
	for i := range all {
		all[i].TTL = d.longer(all[i].TTL)
	}
	return all
}

// A believer is a process that may believe that it holds the lock.
type believer struct {
	*peer
	margin time.Duration // the time of a step after a look at the lease

	mu     sync.Mutex
	lease  *stile.Lease
	ctx    context.Context
	works  bool      // it acts on the lease until it unlocks
	until  time.Time // the latest end of the step that its last look allows
	broken time.Time // the time since which its lease is over; zero while it is not
}

func (b *believer) set(l *stile.Lease, works bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l != nil && l != b.lease {
		b.ctx = l.Context()
	}
	b.lease, b.works, b.until, b.broken = l, works, time.Time{}, time.Time{}
}

// believes looks at the lease, as its process does before each step of its work.
func (b *believer) believes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.lease == nil:
		return false
	case b.lease.Check() != nil:
		if b.broken.IsZero() {
			b.broken = time.Now()
		}
		return time.Now().Before(b.until)
	case b.works:
		b.until = time.Now().Add(b.margin)
	}
	return true
}

// unaware returns how long the lease has been over while its context has not ended.
func (b *believer) unaware() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease == nil || b.broken.IsZero() || b.ctx.Err() != nil {
		return 0
	}
	return time.Since(b.broken)
}

// sleep lets the machine sleep until its claims have run out in the store.
func (b *believer) sleep(ttl time.Duration) {
	if b.believes() {
		if _, err := b.d.Steal("x", time.Millisecond); err != nil {
			return // the process is about to unlock
		}
	}
	b.asleep.Add(int64(2 * ttl))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{} // the process looks again before its next step
}

// volunteer adds a process whose clock is as slow as its Drift allows, or less, and which gets events late.
func volunteer(w *world, r *rand.Rand, first bool) *believer {
	const drift = 0.05
	part := 1 - 2*drift*r.Float64()
	if first {
		part = 1 - 2*drift
	}
	margin := time.Duration(100+r.IntN(400)) * time.Millisecond
	var over atomic.Bool
	tell := func(stile.Event) {
		if !over.Load() {
			<-time.After(time.Second)
		}
	}
	p := w.over(&stile.Options{Drift: drift, Margin: margin, Observer: tell},
		func(d *memory.Driver) driver.Driver { return skewed{d, part} })
	w.ends = append(w.ends, func() { over.Store(true) })
	return &believer{peer: p, margin: margin}
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
	for i := range 4 {
		b := volunteer(w, r, i == 0)
		all = append(all, b)
		mine := newRand(r.Int64())
		wg.Go(func() {
			l := b.Mutex("x").With(stile.LockOptions{TTL: ttl, Linger: time.Duration(mine.IntN(2)) * 20 * time.Millisecond})
			for time.Now().Before(end) && !w.Failed() {
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
				b.set(lease, true)
				select {
				case <-lease.Context().Done():
					<-time.After(b.margin) // the current step
				case <-time.After(time.Duration(mine.IntN(3000)) * time.Millisecond):
				}
				b.set(lease, false)
				if err := lease.Unlock(); errors.Is(err, stile.ErrLost) {
					mu.Lock()
					losses++
					mu.Unlock()
				}
				b.set(nil, false)
			}
		})
	}
	faults := []func(*believer){
		func(b *believer) { b.d.SetLink(memory.Silent) },
		func(b *believer) { b.d.SetLink(memory.Refused) },
		func(b *believer) { b.d.SetLink(memory.Unnotified) },
		func(b *believer) { b.d.Inject(memory.Fault{Times: 1 + r.IntN(3), Lose: true}) },
		func(b *believer) { b.d.Inject(memory.Fault{Times: 1 + r.IntN(3), Drop: true}) },
		func(b *believer) {
			b.d.Inject(memory.Fault{Times: 1 + r.IntN(4), Before: time.Duration(r.IntN(3000)) * time.Millisecond, Late: true})
		},
		func(b *believer) {
			b.d.Inject(memory.Fault{Times: 1 + r.IntN(4), After: time.Duration(r.IntN(3000)) * time.Millisecond})
		},
		func(b *believer) { b.sleep(ttl) },
		func(b *believer) { b.d.Heal() },
		func(b *believer) { b.d.Heal() },
		func(b *believer) { b.d.Heal() },
	}
	for time.Now().Before(end) && !w.Failed() {
		<-time.After(time.Duration(1+r.IntN(40)) * time.Millisecond)
		var holders []int
		for i, b := range all {
			if b.believes() {
				holders = append(holders, i)
			}
			if d := b.unaware(); d > time.Second {
				w.Errorf("the lease of %d has been over for %v, and its context goes on", i, d)
			}
		}
		if len(holders) > 1 {
			w.Errorf("%v believe that they hold", holders)
		}
		if r.IntN(20) == 0 {
			faults[r.IntN(len(faults))](all[r.IntN(len(all))])
		}
	}
	for _, b := range all {
		b.d.Heal()
	}
	wg.Wait()
	if w.Failed() {
		return
	}
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
