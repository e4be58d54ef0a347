package sim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// In fair weather the store answers each request soon, except a few that are lost or late. So the test can require more of
// the clients than in a storm: no lease is lost, a cancelled call ends at once, UnlockAfter keeps the name taken for its
// whole time, joined locks of two stores take their parts without a deadlock, a patient client closes at once, a released
// lease leaves nothing in its client, and a moment after the last call the store is empty.
func TestFairWeather(t *testing.T) {
	bySeed(t, 40, func(w *world, seed int64) {
		f := &fair{world: w, holders: map[string]int{}, kept: map[string]time.Time{}, away: map[*peer]*stile.Client{}}
		f.far = memory.NewStore()
		f.days(newRand(seed), seed%4 == 0)
	})
}

// fair is a world in which the weather is fair.
type fair struct {
	*world
	far     *memory.Store           // a second store
	away    map[*peer]*stile.Client // each peer's client of the second store
	mu      sync.Mutex              // guards what follows
	holders map[string]int
	kept    map[string]time.Time // the end of each name's UnlockAfter
}

// fairTTL is the ttl of all leases: one lost request and one late request still leave time to renew.
const fairTTL = 30 * time.Second

// days lets two clients lock for some days, beside a third that is patient and new each day.
func (f *fair) days(random *rand.Rand, shut bool) {
	hasty := []*peer{f.settle(random), f.settle(random)}
	calls, faults := make([]int, len(hasty)), make([]int, len(hasty))
	for day := range 6 {
		patient := f.settle(random)
		var busy, calm sync.WaitGroup
		for i, p := range hasty {
			for range 3 {
				calls[i] += (&worker{fair: f, peer: p, random: newRand(random.Int64()), hasty: true}).spend(&busy)
			}
		}
		for range 2 {
			(&worker{fair: f, peer: patient, random: newRand(random.Int64())}).spend(&calm)
		}
		var over sync.WaitGroup
		over.Go(func() {
			calm.Wait()
			patient.d.Heal()
			if d := lasts(patient.shut); d != 0 {
				f.Errorf("day %d: Close of a client that gave nothing up lasted %v", day, d)
			}
		})
		last := shut && day == 5
		for i, weather := range f.blow(random, last, hasty, patient, &busy, &calm) {
			faults[i] += weather
		}
		over.Wait()
		f.endRound(day, hasty, last)
	}
	for i, p := range hasty {
		if n, most := p.d.Calls(memory.Leave), calls[i]+faults[i]; n > most {
			f.Errorf("%d calls beside %d faults cost %d times Leave; want %d at most", calls[i], faults[i], n, most)
		}
	}
}

// settle adds a client with some options. The client must accept them, unless the margin is too large.
func (f *fair) settle(random *rand.Rand) *peer {
	o := &stile.Options{
		LockOptions: stile.LockOptions{TTL: fairTTL, Reentrant: true},
		Drift:       []float64{0, 0.05, 0.1}[random.IntN(3)],
		Margin:      []time.Duration{0, time.Second, 5 * time.Second, 15 * time.Second, 24 * time.Second}[random.IntN(5)],
	}
	for {
		p := f.join(o)
		lease, err := p.Mutex("first").LockWithin(f.Context(), time.Hour)
		if err == nil {
			f.unlock(lease)
			q := &peer{d: f.far.Driver()}
			f.away[p] = f.admit(q, q.d, o).Client
			return p
		}
		if !errors.Is(err, stile.ErrInvalid) || o.Margin <= 5*time.Second {
			f.Fatalf("drift %v and margin %v: %v", o.Drift, o.Margin, err)
		}
		o.Margin = 0
	}
}

// blow lets the clients' requests meet a fault now and then, until their goroutines have ended, and returns the number of
// faults of each hasty client. It may close the first one.
func (f *fair) blow(random *rand.Rand, shut bool, hasty []*peer, patient *peer, all ...*sync.WaitGroup) []int {
	done := make(chan struct{})
	go func() {
		for _, wg := range all {
			wg.Wait()
		}
		close(done)
	}()
	faults := make([]int, len(hasty))
	for {
		for i, p := range append(slices.Clone(hasty), patient) {
			p.d.Heal() // the last fault is over
			f := trouble(random)
			if i < len(hasty) {
				faults[i]++
			} else if f.Verb != memory.Enter {
				continue // Close would wait for the request
			}
			p.d.Inject(f)
		}
		select {
		case <-time.After(time.Duration(2000+random.IntN(2000)) * time.Millisecond):
		case <-done:
			return faults
		}
		if shut && random.IntN(8) == 0 {
			shut = false
			if d := lasts(hasty[0].shut); d > 5*time.Second+slack {
				f.Errorf("Close lasted %v", d)
			}
		}
	}
}

// trouble returns the fault of one request. A renewal is late by little only, since the lease after a handover may be short.
func trouble(random *rand.Rand) memory.Fault {
	verb, late := memory.Renew, time.Duration(100+random.IntN(200))*time.Millisecond
	if random.IntN(3) > 0 {
		verb, late = []memory.Verb{memory.Enter, memory.Enter, memory.Await, memory.Leave}[random.IntN(4)], 7*late
	}
	f := []memory.Fault{{Lose: true}, {Drop: true}, {After: late}, {Before: late}, {Before: late, Late: true}}[random.IntN(5)]
	f.Verb = verb
	return f
}

// endRound checks that the store is as it was when the round began.
func (f *fair) endRound(day int, hasty []*peer, shut bool) {
	rest := 6 * time.Second
	if shut {
		rest = fairTTL // the claims of the closed client run out
	}
	for _, p := range hasty {
		p.d.Heal()
	}
	f.mu.Lock()
	for _, until := range f.kept {
		rest = max(rest, time.Until(until)+time.Second)
	}
	f.mu.Unlock()
	pass(rest)
	left, err := f.far.Driver().List(f.Context(), &driver.Query{})
	if n := f.queued("x") + f.queued("y") + len(left); n != 0 || err != nil {
		f.Errorf("day %d: %d claims are left %v after the last call", day, n, rest)
	}
	for _, p := range hasty {
		if n := names(p); n != 0 {
			f.Errorf("day %d: a client minds %d names %v after the last call", day, n, rest)
		}
	}
}

// held notes that a name has one more holder, or one less.
func (f *fair) held(name string, change int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holders[name] += change
	if n := f.holders[name]; n > 1 {
		f.Errorf("%d hold %s", n, name)
	}
	if left := time.Until(f.kept[name]); change > 0 && left > slack {
		f.Errorf("%s is granted %v before the time is over for which UnlockAfter keeps it", name, left)
	}
}

// noteKept notes the time until which a name stays taken.
func (f *fair) noteKept(name string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.After(f.kept[name]) {
		f.kept[name] = until
	}
}

// A worker locks now and then. A hasty worker gives up.
type worker struct {
	*fair
	*peer
	random *rand.Rand
	hasty  bool
}

func (c *worker) Errorf(format string, args ...any) { c.world.Errorf(format, args...) }

// spend starts a worker's day, and returns the number of its calls.
func (c *worker) spend(day *sync.WaitGroup) (calls int) {
	turns := 1 + c.random.IntN(3)
	day.Go(func() {
		for range turns {
			pause := time.Duration(c.random.IntN(1500)) * time.Millisecond
			<-time.After(pause)
			if c.random.IntN(4) == 0 {
				c.join()
				continue
			}
			name := []string{"x", "y"}[c.random.IntN(2)]
			lease := c.take(c.Mutex(name))
			switch {
			case lease != nil:
				c.use(name, lease)
			case c.shutAt.Load() != nil:
				return
			}
		}
	})
	return 2 * turns // a joined lock is two in the near store
}

// join joins two or three of three locks, in random order. One of the three is in the second store.
func (c *worker) join() {
	names := []string{"x", "y", "far x"}
	locks := map[string]*stile.Lock{"x": c.Mutex("x"), "y": c.Mutex("y"), "far x": c.away[c.peer].Mutex("x")}
	c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:2+c.random.IntN(2)]
	var parts []*stile.Lock
	for _, name := range names {
		parts = append(parts, locks[name])
	}
	ctx, cancel := context.WithTimeout(c.world.Context(), time.Hour)
	defer cancel()
	lease, err := stile.Join(parts...).Lock(ctx)
	if err != nil {
		c.spoilt("a joined lock", err)
		return
	}
	for _, name := range names {
		c.held(name, 1)
	}
	c.hold(lease)
	for _, name := range names {
		c.held(name, -1)
	}
	if err := lease.Unlock(); err != nil {
		c.spoilt("Unlock of a joined lock", err)
	}
}

// take acquires a lock, or gives up if the worker is hasty.
func (c *worker) take(lock *stile.Lock) *stile.Lease {
	ctx, cancel := context.WithCancelCause(c.world.Context())
	defer cancel(nil)
	limit, way := time.Duration(c.random.IntN(4000))*time.Millisecond, c.random.IntN(5)
	var lease *stile.Lease
	var err error
	began := time.Now()
	switch {
	case !c.hasty:
		lease, err = lock.Lock(ctx)
		limit, way = time.Hour, 2
	case way == 0:
		lease, err = lock.TryLock(ctx)
		limit = 5 * time.Second
	case way == 1:
		lease, err = lock.LockWithin(ctx, limit)
	default:
		time.AfterFunc(limit, func() { cancel(errEnough) })
		lease, err = lock.Lock(ctx)
	}
	d := time.Since(began)
	late := c.since(began)
	switch closed := c.shutAt.Load() != nil; {
	case d > limit+slack || late > slack:
		c.Errorf("way %d of %v lasted %v, and %v after Close: %v", way, limit, d, late, err)
	case err == nil, closed && errors.Is(err, stile.ErrClosed), way > 1 && errors.Is(err, errEnough) && d == limit:
	case way < 2 && errors.Is(err, stile.ErrHeld), way == 1 && errors.Is(err, stile.ErrUnreachable) && d == limit:
	default:
		c.Errorf("way %d of %v, after %v: %v", way, limit, d, err)
	}
	return lease
}

// use holds the lock for a while, takes it again while it holds it, and releases each lease.
func (c *worker) use(name string, lease *stile.Lease) {
	c.held(name, 1)
	leases := []*stile.Lease{lease}
	for range c.random.IntN(3) {
		c.hold(lease)
		inner, err := c.Mutex(name).Lock(leases[len(leases)-1].Context())
		if err != nil {
			c.spoilt("entering again", err)
			break
		}
		leases = append(leases, inner)
	}
	c.random.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	var kept time.Time
	for i, l := range leases {
		c.hold(l)
		keep := time.Duration(0)
		if c.random.IntN(3) == 0 {
			keep = time.Duration(1+c.random.IntN(5000)) * time.Millisecond
		}
		if until := time.Now().Add(keep); keep > 0 && until.After(kept) {
			kept = until
		}
		if i == len(leases)-1 {
			c.held(name, -1)
		}
		c.release(l, keep, leases[i+1:])
	}
	if c.shutAt.Load() == nil {
		c.noteKept(name, kept)
	}
}

// hold waits for a while, sometimes for as long as a few leases, but not beyond the end of the lease.
func (c *worker) hold(l *stile.Lease) {
	most := 1000
	if c.random.IntN(20) == 0 {
		most = 100_000
	}
	select {
	case <-time.After(time.Duration(c.random.IntN(most)) * time.Millisecond):
	case <-l.Context().Done():
	}
}

// release releases a lease and checks that its context ends, and no other context.
func (c *worker) release(l *stile.Lease, keep time.Duration, others []*stile.Lease) {
	own := l.Context()
	if own.Err() != nil || l.Check() != nil {
		c.spoilt("a lease that is held", context.Cause(own))
	}
	var err error
	if d := took(func() { err = l.UnlockAfter(keep) }); d > 5*time.Second+slack {
		c.Errorf("Unlock lasted %v: %v", d, err)
	}
	if err != nil {
		c.spoilt("Unlock", err)
	}
	if err := context.Cause(own); !errors.Is(err, stile.ErrReleased) {
		c.spoilt("the context of a lease that was released", err)
	}
	if len(others) > 0 && err == nil {
		if n := beside(others[0]); n != len(others) {
			c.Errorf("the client minds %d leases of a hold, %d of which are held", n, len(others))
		}
	}
	for _, other := range others {
		if ctx := other.Context(); ctx.Err() != nil || other.Check() != nil {
			c.spoilt("another lease of the same hold", context.Cause(ctx))
		}
	}
}

// spoilt reports an end that only Close may cause.
func (c *worker) spoilt(what string, err error) {
	if c.shutAt.Load() == nil {
		c.Errorf("%s: %v", what, err)
	}
}
