package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// In foul weather the store is away for longer than Patience, again and again, or keeps no claim, or promises less than the
// client requires. Still, a call that begins while the store is away ends with Patience, Close ends every call at once, a
// watch reports the error that ended it, and an unfit store grants nothing.
func TestFoulWeather(t *testing.T) {
	bySeed(t, 40, func(w *world, seed int64) {
		random := newRand(seed)
		f := &foul{world: w, end: time.Now().Add(time.Minute)}
		for i := range 3 {
			f.exposed(random, fmt.Sprint("own", i), i == 0)
		}
		f.demanding(random)
		f.all.Wait()
		pass(foulTTL + time.Second) // the claims of unknown outcome have run out
		for _, name := range []string{"x", "own0", "own1", "own2"} {
			if n := w.queued(name); n != 0 {
				w.Errorf("%d claims of %s are left", n, name)
			}
		}
	})
}

// foul is a world in which the weather is foul, until it ends.
type foul struct {
	*world
	all sync.WaitGroup
	end time.Time
}

// foulTTL is the ttl of all leases.
const foulTTL = 12 * time.Second

// foulPatience is the clients' Patience: the default.
const foulPatience = 5 * time.Second

// A moody store changes its behaviour.
type moody struct {
	*memory.Driver
	heap   bool                    // the store has no queue
	unfit  atomic.Bool             // the store promises less than the client requires
	adrift atomic.Pointer[[]error] // the errors of its next Enters, one after another; nil while the store keeps claims
	next   atomic.Int64
}

func (m *moody) Traits() driver.Traits {
	t := m.Driver.Traits()
	t.Ordered = t.Ordered && !m.heap
	if m.unfit.Load() {
		t.Unfit("memory yes", "It forgets.")
	}
	return t
}

func (m *moody) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if errs := m.adrift.Load(); errs != nil {
		return driver.Place{}, (*errs)[int(m.next.Add(1))%len(*errs)]
	}
	return m.Driver.Enter(ctx, c)
}

// moodyClient adds a client of a moody store.
func (f *foul) moodyClient(heap bool, require ...driver.Trait) (*peer, *moody) {
	var store *moody
	o := &stile.Options{LockOptions: stile.LockOptions{TTL: foulTTL}, Require: require}
	p := f.over(o, func(d *memory.Driver) driver.Driver {
		store = &moody{Driver: d, heap: heap}
		return store
	})
	return p, store
}

// A soul is a goroutine of a client whose store goes away. No other soul locks its name.
type soul struct {
	*foul
	*peer
	store  *moody
	random *rand.Rand

	mu   sync.Mutex // guards away
	away []absence
}

// An absence is a time in which the store was away. It still lasts if to is zero.
type absence struct{ from, to time.Time }

func (s *soul) Errorf(format string, args ...any) { s.world.Errorf(format, args...) }

// exposed adds a client whose store goes away. Its goroutine closes the client in the end, in any weather.
func (f *foul) exposed(random *rand.Rand, own string, heap bool) {
	p, store := f.moodyClient(heap)
	s := &soul{foul: f, peer: p, store: store, random: newRand(random.Int64())}
	wind := newRand(random.Int64())
	ends := time.Now().Add(time.Duration(10_000+random.IntN(50_000)) * time.Millisecond)
	f.all.Go(func() { s.live(own) })
	f.all.Go(s.watch)
	f.all.Go(func() {
		for time.Now().Before(ends) {
			s.blow(wind, ends)
		}
		if d := lasts(p.shut); d > foulPatience+slack {
			f.Errorf("Close lasted %v", d)
		}
	})
}

// blow takes the store away, and mostly brings it back.
func (s *soul) blow(wind *rand.Rand, ends time.Time) {
	down := driver.Unreachable(errors.New("connection refused"))
	s.mu.Lock()
	s.away = append(s.away, absence{from: time.Now()})
	s.mu.Unlock()
	switch wind.IntN(4) {
	case 0:
		s.peer.d.SetLink(memory.Refused)
	case 1:
		s.store.adrift.Store(&[]error{down, driver.ErrSession, driver.ErrGone, down, down, driver.ErrSession})
	default:
		s.peer.d.SetLink(memory.Silent)
	}
	<-time.After(time.Duration(wind.IntN(15_000)) * time.Millisecond)
	if time.Now().After(ends) && wind.IntN(2) == 0 {
		return // the client closes while the store is away
	}
	s.mu.Lock()
	s.away[len(s.away)-1].to = time.Now()
	s.mu.Unlock()
	s.store.adrift.Store(nil)
	s.peer.d.Heal()
	<-time.After(time.Duration(500+wind.IntN(5000)) * time.Millisecond)
}

// wasAway reports whether the store was away from a time on for Patience.
func (s *soul) wasAway(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.away {
		if a.from.Before(began) && (a.to.IsZero() || a.to.After(began.Add(foulPatience))) {
			return true
		}
	}
	return false
}

// live locks and unlocks until its client is closed.
func (s *soul) live(name string) {
	for {
		<-time.After(time.Duration(s.random.IntN(1500)) * time.Millisecond)
		began := time.Now()
		lease, way, err := s.take(s.Mutex(name))
		if d := time.Since(began); d > foulPatience+slack && s.wasAway(began) {
			s.Errorf("%s lasted %v, though the store was away all the time: %v", way, d, err)
		}
		if late := s.since(began); late > slack {
			s.Errorf("%s goes on for %v after Close: %v", way, late, err)
		}
		switch {
		case errors.Is(err, stile.ErrClosed):
			return
		case err != nil:
			continue
		}
		<-time.After(time.Duration(s.random.IntN(3000)) * time.Millisecond)
		if d := took(func() { err = lease.Unlock() }); d > foulPatience+slack {
			s.Errorf("Unlock lasted %v: %v", d, err)
		}
	}
}

// take acquires the lock in some way, with or without a context.
func (s *soul) take(lock *stile.Lock) (lease *stile.Lease, way string, err error) {
	var none context.Context
	limit := time.Duration(1+s.random.IntN(2000)) * time.Millisecond
	switch s.random.IntN(5) {
	case 0:
		lease, err = lock.TryLock(s.world.Context())
		return lease, "TryLock", err
	case 1:
		lease, err = lock.LockWithin(s.world.Context(), limit)
		return lease, "LockWithin", err
	case 2:
		s.nothing(none)
		fallthrough
	default:
		lease, err = lock.Lock(s.world.Context())
		return lease, "Lock", err
	}
}

// nothing makes calls with a nil context.
func (s *soul) nothing(none context.Context) {
	uses := usesOf(s.peer.Client, none)
	for name, use := range uses {
		if s.random.IntN(len(uses)) > 2 {
			continue
		}
		began := time.Now()
		err := recovered(use)
		if !errors.Is(err, stile.ErrInvalid) && !errors.Is(err, stile.ErrClosed) || time.Now().After(began) {
			s.Errorf("%s without a context: %v after %v; want ErrInvalid at once", name, err, time.Since(began))
		}
	}
}

// recovered returns the panic of a call as an error.
func recovered(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a panic: %v", r)
		}
	}()
	return call()
}

// watch follows a name until the client closes, which the watch must report.
func (s *soul) watch() {
	var last error
	if s.store.heap {
		for _, err := range s.Observe(s.world.Context(), "x") {
			last = err
		}
	} else {
		for _, err := range s.Watch(s.world.Context(), "x") {
			last = err
		}
	}
	if !errors.Is(last, stile.ErrClosed) {
		s.Errorf("a watch has ended, and last told of %v; want ErrClosed", last)
	}
}

// demanding adds a client that requires the trait fit of a store that sometimes lacks it, and a neighbour that requires
// nothing.
func (f *foul) demanding(random *rand.Rand) {
	p, store := f.moodyClient(false, driver.TraitFit)
	neighbour := f.join(&stile.Options{LockOptions: stile.LockOptions{TTL: foulTTL}})
	turns, holds, others := newRand(random.Int64()), newRand(random.Int64()), newRand(random.Int64())
	var unfit atomic.Pointer[time.Time]
	f.all.Go(func() {
		for f.on() {
			<-time.After(time.Duration(500+turns.IntN(6000)) * time.Millisecond)
			now := time.Now()
			unfit.Store(&now)
			store.unfit.Store(true)
			<-time.After(time.Duration(500+turns.IntN(20_000)) * time.Millisecond)
			store.unfit.Store(false)
			unfit.Store(nil)
		}
	})
	since := func() time.Duration {
		if at := unfit.Load(); at != nil {
			return time.Since(*at)
		}
		return 0
	}
	f.all.Go(func() {
		for f.on() {
			<-time.After(time.Duration(holds.IntN(500)) * time.Millisecond)
			lease, err := p.Mutex("x").LockWithin(f.Context(), 20*time.Second)
			switch long := since(); {
			case err != nil:
				if errors.Is(err, stile.ErrUnreachable) {
					f.Errorf("Lock in a store that is unfit at times: %v", err)
				}
				continue
			case long > 0:
				f.Errorf("a store that has been unfit for %v granted the lock", long)
			}
			<-time.After(time.Duration(holds.IntN(20_000)) * time.Millisecond)
			if long := since(); long > foulTTL && lease.Check() == nil {
				f.Errorf("a store has been unfit for %v, and the lease goes on", long)
			}
			_ = lease.Unlock() //nolint:errcheck // the lease may be lost already
		}
	})
	f.all.Go(func() {
		for f.on() {
			lease := f.lock(neighbour.Mutex("x"))
			<-time.After(time.Duration(others.IntN(4000)) * time.Millisecond)
			f.unlock(lease)
			<-time.After(time.Duration(others.IntN(500)) * time.Millisecond)
		}
	})
}

func (f *foul) on() bool { return time.Now().Before(f.end) }
