package sim_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A world is a store and its clients, in virtual time. Every goroutine must end before the world does.
type world struct {
	*testing.T
	store   *memory.Store
	clients []*peer
	ends    []func() // run before the clients close

	mu sync.Mutex // guards the fields below

	// kept are leases until the clients are closed: one that is forgotten is reported from outside the bubble, which ends
	// the program.
	kept []any
}

// A peer is one client, as in a process of its own.
type peer struct {
	*stile.Client
	d      *memory.Driver
	asleep atomic.Int64              // the time that its machine has slept
	shutAt atomic.Pointer[time.Time] // the time of its close

	mu     sync.Mutex
	events []stile.Event
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: memory.NewStore()}
		defer func() {
			for _, end := range w.ends {
				end()
			}
			for _, p := range w.clients {
				p.d.Heal()
				if err := p.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			}
			runtime.KeepAlive(w)
		}()
		f(w)
	})
}

// join adds a client.
func (w *world) join(o *stile.Options) *peer {
	w.Helper()
	if o == nil {
		o = &stile.Options{}
	}
	p := &peer{d: w.store.Driver()}
	return w.admit(p, p.d, p.observed(o))
}

// observed returns options with an observer that keeps the peer's events.
func (p *peer) observed(o *stile.Options) *stile.Options {
	with := *o
	with.Observer = func(e stile.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, e)
	}
	return &with
}

// over adds a client with another driver, made of the world's.
func (w *world) over(o *stile.Options, wrap func(*memory.Driver) driver.Driver) *peer {
	w.Helper()
	p := &peer{d: w.store.Driver()}
	return w.admit(p, wrap(p.d), o)
}

func (w *world) admit(p *peer, d driver.Driver, o *stile.Options) *peer {
	w.Helper()
	c, err := newAsleep(d, o, func() time.Duration { return time.Duration(p.asleep.Load()) })
	if err != nil {
		w.Fatal(err)
	}
	p.Client = c
	w.clients = append(w.clients, p)
	return p
}

// shut closes the client, and notes the time.
func (p *peer) shut() error {
	now := time.Now()
	p.shutAt.Store(&now)
	return p.Close()
}

// since returns how long a call that began then has gone on after the close of the client.
func (p *peer) since(began time.Time) time.Duration {
	at := p.shutAt.Load()
	if at == nil || at.Before(began) {
		return 0
	}
	return time.Since(*at)
}

// saw counts the events of a kind. Observers get events with a delay, so it waits for them.
func (p *peer) saw(k stile.Kind) (n int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// last returns the latest event of a kind.
func (p *peer) last(k stile.Kind) (last stile.Event) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Kind == k {
			last = e
		}
	}
	return last
}

// lock takes a lock that must be free.
func (w *world) lock(l *stile.Lock) *stile.Lease {
	w.Helper()
	lease, err := l.Lock(w.Context())
	if w.keepLease(lease, err) != nil {
		w.Fatalf("lock: %v", err)
	}
	return lease
}

// keepLease keeps a lease that a test does not use, and returns the error of its call.
func (w *world) keepLease(lease *stile.Lease, err error) error {
	w.keeps(lease)
	return err
}

func (w *world) keeps(a any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, a)
}

func (w *world) unlock(l *stile.Lease) {
	w.Helper()
	if err := l.Unlock(); err != nil {
		w.Errorf("unlock: %v", err)
	}
}

// unlockLost releases a lost lease, and checks that the unlock reports the loss.
func (w *world) unlockLost(l *stile.Lease) {
	w.Helper()
	if err := l.Unlock(); !errors.Is(err, stile.ErrLost) {
		w.Errorf("unlock of a lost lease: %v; want ErrLost", err)
	}
}

// queued returns how many claims a name has in the store.
func (w *world) queued(name string) int {
	w.Helper()
	d := w.store.Driver()
	defer d.Close()
	c, err := stile.New(d, nil)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	q, err := c.Show(context.Background(), name)
	if err != nil {
		w.Fatal(err)
	}
	return len(q.Claims)
}

// inLine starts a goroutine that waits for the lock, and returns when its claim is in the queue.
func (w *world) inLine(ctx context.Context, l *stile.Lock) <-chan result {
	ch := make(chan result, 1)
	go func() {
		lease, err := l.Lock(ctx)
		ch <- result{lease, err}
	}()
	w.keeps(ch)
	synctest.Wait()
	return ch
}

type result struct {
	*stile.Lease
	err error
}

// got returns the lease of a result that must be there already.
func (w *world) got(ch <-chan result) *stile.Lease {
	w.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		if r.err != nil {
			w.Fatalf("lock: %v", r.err)
		}
		w.keeps(r.Lease)
		return r.Lease
	default:
		w.Fatal("the lock was not had yet")
		return nil
	}
}

// waits fails the test if there is a result.
func (w *world) waits(ch <-chan result) {
	w.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		w.Fatalf("got %v, %v; want it to wait", r.Lease, r.err)
	default:
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
