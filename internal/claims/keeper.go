package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Keeper keeps the claims of one process in one store.
type Keeper struct {
	d      driver.Driver
	traits driver.Traits
	conf   Config
	clock  *clock
	id     string
	base   context.Context // ends when the keeper is closed
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu             sync.Mutex // guards what follows, and every gate, seat and hold; never held across I/O
	closed         bool
	gates          map[Terms]*gate
	courtesies     map[string]*courtesy // by name; of stores without a queue
	manyCourtesies int                  // how many there may be until those that are old are cleared away
	renewals       renewer
	later          []func() // what to do when mu is free: the caller's code must not run under it

	jobs chan func() // to goroutines that have done one, and have a stack that has grown
	idle int         // how many of them wait for another
}

// A Config is a keeper's settings, none of them left out but Observe and Slept.
type Config struct {
	Turn     time.Duration        // how long goroutines hand a claim on among themselves
	Margin   time.Duration        // how long before its end a lease is no longer trusted; 0 means a tenth, at most a second
	Drift    float64              // how much the rates of two clocks may differ
	Patience time.Duration        // how long a store that does not answer is asked again
	Observe  func(Event)          // is told what happens, with no lock held
	Slept    func() time.Duration // how long the machine has slept since it booted; nil means to ask it
}

// New returns a keeper of claims in a store, which it closes when it is closed.
func New(d driver.Driver, conf Config) *Keeper {
	if conf.Slept == nil {
		conf.Slept = slept
	}
	k := &Keeper{
		d: d, traits: d.Traits(), conf: conf, clock: newClock(conf.Slept), id: rand.Text(), gates: map[Terms]*gate{}, courtesies: map[string]*courtesy{},
		renewals: renewer{next: never, kick: make(chan struct{}, 1)}, jobs: make(chan func(), maxIdle),
	}
	k.base, k.stop = context.WithCancel(context.Background())
	if a, ok := d.(driver.Alerter); ok {
		a.Alert(k.endangered)
	}
	k.work.Go(k.run)
	return k
}

// Close ends everything that waits, and every lease that is held; it takes unused and waiting claims out of the store,
// but not those under leases that were not released, and closes the store. Closing twice is harmless.
func (k *Keeper) Close() error {
	k.mu.Lock()
	if !k.closed {
		now := k.clock.now()
		for _, g := range k.gates {
			g.fail(driver.ErrClosed)
			g.move(now)
		}
		for h := &k.renewals.heap; len(*h) > 0; {
			if s := (*h)[0]; len(s.holds) == 0 {
				s.retire()
			} else {
				s.lose(Shutdown, now)
			}
		}
		k.closed = true
	}
	k.unlock()
	k.stop()
	k.work.Wait()
	return k.d.Close()
}

// maxIdle is how many goroutines are kept for another job.
const maxIdle = 8

// spawn runs f in a goroutine that Close waits for, unless the keeper is closed already. The caller holds mu.
func (k *Keeper) spawn(f func()) {
	switch {
	case k.closed:
	case k.idle > 0:
		k.idle--
		k.jobs <- f // has room for one each
	default:
		k.work.Go(func() { k.toil(f) })
	}
}

// toil does one job after another, until there are too many who would wait for the next, or the keeper is closed.
func (k *Keeper) toil(f func()) {
	for {
		f()
		k.mu.Lock()
		if k.closed || k.idle == maxIdle {
			k.mu.Unlock()
			return
		}
		k.idle++
		k.mu.Unlock()
		select {
		case f = <-k.jobs:
		case <-k.base.Done():
			select {
			case f = <-k.jobs: // given just before
			default:
				return
			}
		}
	}
}

// tell has the observer told when mu is free. The caller holds mu.
func (k *Keeper) tell(e Event) {
	if observe := k.conf.Observe; observe != nil {
		k.later = append(k.later, func() { observe(e) })
	}
}

// unlock frees mu, and does what had to wait for that.
func (k *Keeper) unlock() {
	later := k.later
	k.later = nil
	k.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// depart takes a claim out of the store, on a context of its own, and asks again while the store does not answer and
// patience lasts.
func (k *Keeper) depart(d *driver.Departure) error {
	ctx, cancel := context.WithTimeout(context.Background(), k.conf.Patience)
	defer cancel()
	var (
		pause  backoff
		unsure bool
	)
	for {
		err := k.d.Leave(ctx, d)
		switch {
		case err == nil, unsure && errors.Is(err, driver.ErrGone): // an earlier try may have been the one that did it
			return nil
		case driver.IsRejected(err) && !driver.IsUnreachable(err):
			return err
		}
		unsure = unsure || !driver.IsRejected(err)
		if pause.wait(ctx, k.conf.Patience, err) != nil {
			return &Unknown{Until: k.ghost(d.Claim), Err: err}
		}
	}
}

// sweep takes a claim out of the store that may stand there, or may yet arrive: a request that was never answered can
// be on its way for a while. It looks again until it was there once, or patience ends.
func (k *Keeper) sweep(claim *driver.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), k.conf.Patience)
	defer cancel()
	for pause := (backoff{}); ; {
		err := k.d.Leave(ctx, &driver.Departure{Claim: claim})
		if err == nil || errors.Is(err, driver.ErrClosed) || pause.wait(ctx, 0, nil) != nil {
			return
		}
	}
}

// Gates returns how many names the keeper has something to do with.
func (k *Keeper) Gates() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.gates)
}
