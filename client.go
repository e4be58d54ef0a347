package stile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Client takes locks in one store. A process needs one, used by all its goroutines.
type Client struct {
	d      driver.Driver
	traits driver.Traits
	opts   Options
	clock  *clock
	id     string
	base   context.Context // ends when the client is closed
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex // guards what follows, and every gate, seat and hold; never held across I/O
	closed   bool
	gates    map[gateKey]*gate
	renewals renewer
	later    []func() // what to do when mu is free: user code must not run under it

	jobs chan func() // to goroutines that have done one, and have a stack that has grown
	idle int         // how many of them wait for another
}

// Open opens the store at a URL, such as redis://host:6379 or sqlite:///path/locks.db, and returns a client that owns
// it. The scheme's package must be imported. The error never shows the URL, which may hold a password.
func Open(ctx context.Context, url string, o *Options) (*Client, error) {
	d, err := driver.Open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("stile: open: %w", explain(err))
	}
	c, err := New(d, o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}

// New returns a client of a store that is open already, and closes it with the client. Nil options mean the defaults.
func New(d driver.Driver, o *Options) (*Client, error) { return newClient(d, o, slept) }

func newClient(d driver.Driver, o *Options, slept func() time.Duration) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("stile: open: %w", err)
	}
	c := &Client{
		d: d, traits: d.Traits(), opts: opts, clock: newClock(slept), id: rand.Text(), gates: map[gateKey]*gate{},
		renewals: renewer{next: never, kick: make(chan struct{}, 1)}, jobs: make(chan func(), maxIdle),
	}
	c.base, c.stop = context.WithCancel(context.Background())
	c.work.Go(c.run)
	return c, nil
}

// Traits tells what the store can promise.
func (c *Client) Traits() driver.Traits { return c.traits }

// Close ends everything that waits, with [ErrClosed], and every lease that is held, which is then lost with reason
// [Shutdown]; it takes unused and waiting claims out of the store, on which it spends Options.Patience at most, and
// closes the store. Claims under leases that were not released stay until they run out, since the work under them may
// not have ended. Closing twice is harmless.
func (c *Client) Close() error {
	c.mu.Lock()
	if !c.closed {
		now := c.clock.now()
		for _, g := range c.gates {
			g.fail(ErrClosed)
			g.move(now)
		}
		for h := &c.renewals.heap; len(*h) > 0; {
			if s := (*h)[0]; len(s.holds) == 0 {
				s.retire()
			} else {
				s.lose(Shutdown, now)
			}
		}
		c.closed = true
	}
	c.unlock()
	c.stop()
	c.work.Wait()
	return c.d.Close()
}

// maxIdle is how many goroutines are kept for another job.
const maxIdle = 8

// spawn runs f in a goroutine that Close waits for, unless the client is closed already. The caller holds mu.
func (c *Client) spawn(f func()) {
	switch {
	case c.closed:
	case c.idle > 0:
		c.idle--
		c.jobs <- f // has room for one each
	default:
		c.work.Go(func() { c.toil(f) })
	}
}

// toil does one job after another, until there are too many who would wait for the next, or the client is closed.
func (c *Client) toil(f func()) {
	for {
		f()
		c.mu.Lock()
		if c.closed || c.idle == maxIdle {
			c.mu.Unlock()
			return
		}
		c.idle++
		c.mu.Unlock()
		select {
		case f = <-c.jobs:
		case <-c.base.Done():
			select {
			case f = <-c.jobs: // given just before
			default:
				return
			}
		}
	}
}

// tell has the observer told when mu is free. The caller holds mu.
func (c *Client) tell(e Event) {
	if observe := c.opts.Observer; observe != nil {
		c.later = append(c.later, func() { observe(e) })
	}
}

// unlock frees mu, and does what had to wait for that.
func (c *Client) unlock() {
	later := c.later
	c.later = nil
	c.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// depart takes a claim out of the store, on a context of its own, and asks again while the store does not answer and
// patience lasts.
func (c *Client) depart(d *driver.Departure) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.Patience)
	defer cancel()
	var (
		pause  backoff
		unsure bool
	)
	for {
		err := c.d.Leave(ctx, d)
		switch {
		case err == nil, unsure && errors.Is(err, driver.ErrGone): // an earlier try may have been the one that did it
			return nil
		case driver.IsRejected(err) && !driver.IsUnreachable(err):
			return err
		}
		unsure = unsure || !driver.IsRejected(err)
		if pause.wait(ctx, c.opts.Patience, err) != nil {
			return &UnknownError{Until: c.ghost(d.Claim), Err: err}
		}
	}
}

// sweep takes a claim out of the store that may stand there, or may yet arrive: a request that was never answered can
// be on its way for a while. It looks again until it was there once, or patience ends.
func (c *Client) sweep(claim *driver.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.Patience)
	defer cancel()
	for pause := (backoff{}); ; {
		err := c.d.Leave(ctx, &driver.Departure{Claim: claim})
		if err == nil || errors.Is(err, ErrClosed) || pause.wait(ctx, 0, nil) != nil {
			return
		}
	}
}
