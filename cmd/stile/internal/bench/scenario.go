package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/histogram"
)

// A Scenario is one way to use locks.
type Scenario struct {
	Key  string
	What string // the measurement in words

	clients int
	shared  bool // it needs readers
	pauses  bool // it has pauses, so its rate means nothing
	run     func(ctx context.Context, w *window) error
}

// crowd is how many goroutines lock at once.
const crowd = 64

// Scenarios are all scenarios.
var Scenarios = []*Scenario{
	{Key: "alone", What: "lock and unlock of a name nobody else wants", clients: 1, run: alone},
	{Key: "apart", What: "the same, 64 goroutines on 64 names", clients: 1, run: apart},
	{Key: "hot", What: "the same, 64 goroutines on one name", clients: 1, run: together((*stile.Client).Mutex)},
	{Key: "fleet", What: "the same, 8 clients with 8 goroutines each on one name", clients: 8,
		run: together((*stile.Client).Mutex)},
	{Key: "readers", What: "the same, 64 readers of one name", clients: 1, shared: true, run: together((*stile.Client).Reader)},
	{Key: "handover", What: "from unlock until another client holds", clients: 2, pauses: true, run: handOver},
	{Key: "try", What: "try of a name that another client holds", clients: 2, run: try},
}

// A window is one scenario in one store, once.
type window struct {
	name    string // of a lock that was not used before
	traits  driver.Traits
	clients []*stile.Client
	length  time.Duration
	times   histogram.Histogram
	span    time.Duration // the time in which the calls were counted
}

// ttl is the ttl of the leases, if the store has leases.
const ttl = 15 * time.Second

func (w *window) with(l *stile.Lock) *stile.Lock {
	return l.With(stile.LockOptions{TTL: min(max(ttl, w.traits.MinTTL), w.traits.MaxTTL), Owner: "stile bench"})
}

// repeat lets goroutines call once in a loop. The first quarter of the window is not counted. Then they go on until the
// window ends and at least one call was counted. The first error ends all of them.
func (w *window) repeat(
	ctx context.Context, goroutines int, once func(ctx context.Context, i int) (time.Duration, error),
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now().Add(w.length / 4)
	end := begin.Add(w.length)
	times := make([]histogram.Histogram, goroutines)
	var all sync.WaitGroup
	var counted atomic.Bool
	for i := range goroutines {
		all.Go(func() {
			for now := time.Now(); (now.Before(end) || !counted.Load()) && ctx.Err() == nil; now = time.Now() {
				took, err := once(ctx, i)
				if err != nil {
					cancel(err) // only the first has an effect
					return
				}
				if now.After(begin) {
					times[i].Add(took)
					counted.Store(true)
				}
			}
		})
	}
	all.Wait()
	w.span = time.Since(begin)
	for i := range times {
		w.times.Merge(&times[i])
	}
	return context.Cause(ctx)
}

// turn locks and unlocks, and returns how long that took.
func turn(ctx context.Context, l *stile.Lock) (time.Duration, error) {
	begin := time.Now()
	lease, err := l.Lock(ctx)
	if err != nil {
		return 0, err
	}
	err = lease.Unlock()
	return time.Since(begin), err
}

func alone(ctx context.Context, w *window) error {
	l := w.with(w.clients[0].Mutex(w.name))
	return w.repeat(ctx, 1, func(ctx context.Context, _ int) (time.Duration, error) { return turn(ctx, l) })
}

func apart(ctx context.Context, w *window) error {
	locks := make([]*stile.Lock, crowd)
	for i := range locks {
		locks[i] = w.with(w.clients[0].Mutex(w.name + "/" + strconv.Itoa(i)))
	}
	return w.repeat(ctx, crowd, func(ctx context.Context, i int) (time.Duration, error) { return turn(ctx, locks[i]) })
}

// together lets the same number of goroutines in each client lock one name.
func together(lock func(c *stile.Client, name string) *stile.Lock) func(ctx context.Context, w *window) error {
	return func(ctx context.Context, w *window) error {
		locks := make([]*stile.Lock, len(w.clients))
		for i, c := range w.clients {
			locks[i] = w.with(lock(c, w.name))
		}
		return w.repeat(ctx, crowd, func(ctx context.Context, i int) (time.Duration, error) {
			return turn(ctx, locks[i%len(locks)])
		})
	}
}

// A taking is the moment at which a client holds the lock.
type taking struct {
	at  time.Time
	err error
}

// handOver lets one client hold and another wait.
func handOver(ctx context.Context, w *window) error {
	from, to := w.with(w.clients[0].Mutex(w.name)), w.with(w.clients[1].Mutex(w.name))
	return w.repeat(ctx, 1, func(ctx context.Context, _ int) (time.Duration, error) {
		lease, err := from.Lock(ctx)
		if err != nil {
			return 0, err
		}
		taken := make(chan taking, 1)
		go func() {
			other, err := to.Lock(ctx)
			at := time.Now()
			if err == nil {
				err = other.Unlock()
			}
			taken <- taking{at, err}
		}()
		time.Sleep(5*time.Millisecond + rand.N(5*time.Millisecond)) // so that the hand-over comes at any point of a poll interval
		begin := time.Now()
		err = lease.Unlock()
		t := <-taken
		return t.at.Sub(begin), errors.Join(err, t.err)
	})
}

func try(ctx context.Context, w *window) error {
	lease, err := w.with(w.clients[0].Mutex(w.name)).Lock(ctx)
	if err != nil {
		return err
	}
	l := w.with(w.clients[1].Mutex(w.name))
	err = w.repeat(ctx, 1, func(ctx context.Context, _ int) (time.Duration, error) {
		begin := time.Now()
		other, err := l.TryLock(ctx)
		switch took := time.Since(begin); {
		case errors.Is(err, stile.ErrHeld):
			return took, nil
		case err == nil:
			return 0, errors.Join(fmt.Errorf("%q was had while another client held it", w.name), other.Unlock())
		default:
			return 0, err
		}
	})
	return errors.Join(err, lease.Unlock())
}
