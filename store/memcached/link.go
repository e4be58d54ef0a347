package memcached

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	keepAlive = 5 * time.Second // how often an idle connection is tested

	// After a failed attempt to connect, the next one waits for these times at first and at most.
	redialLeast = 20 * time.Millisecond
	redialMost  = time.Second
)

// A link is the connection to the server, which is made again when it breaks.
type link struct {
	addr        string
	user        string
	password    string
	dialTimeout time.Duration
	alarm       alarm

	ctx    context.Context // ends when the link is closed
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	conn     *conn      // nil before the first connection
	made     uint64     // number of connections so far
	dialing  chan struct{}
	failure  error     // of the last attempt
	next     time.Time // no attempt before this time
	failures int
}

// get returns a connection that is not broken. Its errors are definite: nothing was sent.
func (l *link) get(ctx context.Context) (*conn, error) {
	for {
		l.mu.Lock()
		if l.ctx.Err() != nil {
			l.mu.Unlock()
			return nil, driver.ErrClosed
		}
		if l.aliveLocked() {
			defer l.mu.Unlock()
			return l.conn, nil
		}
		if l.dialing == nil && time.Now().Before(l.next) {
			defer l.mu.Unlock()
			return nil, l.failure
		}
		dialing := l.dialing
		if dialing == nil {
			dialing = make(chan struct{})
			l.dialing = dialing
			l.work.Go(func() { l.dial(dialing) })
		}
		l.mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, driver.Ended(ctx, false)
		}
		l.mu.Lock()
		failure := l.failure
		l.mu.Unlock()
		if failure != nil {
			return nil, failure
		}
	}
}

// getsAtOnce is how many values one request reads.
const getsAtOnce = 64

// gets reads the values of some keys, many with one request, and calls each with the server's answers, in order.
func (l *link) gets(ctx context.Context, keys []string, each func(i int, c *conn, r *reply)) error {
	i := 0
	for part := range slices.Chunk(keys, getsAtOnce) {
		c, err := l.get(ctx)
		if err != nil {
			return err
		}
		var request []byte
		for _, key := range part {
			request = appendGet(request, key)
		}
		replies, err := c.do(ctx, request, len(part))
		if err != nil {
			return l.explain(err)
		}
		for j := range replies {
			each(i, c, &replies[j])
			i++
		}
		driver.Heard(ctx, len(part))
	}
	return nil
}

// aliveLocked reports whether there is a connection that is not broken.
func (l *link) aliveLocked() bool {
	if l.conn == nil {
		return false
	}
	select {
	case <-l.conn.broken:
		return false
	default:
		return true
	}
}

// latest returns the latest connection. It may be broken.
func (l *link) latest() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// dial makes a connection for all who wait for one.
func (l *link) dial(done chan struct{}) {
	c, err := l.connect()
	l.mu.Lock()
	before := l.conn
	switch {
	case err == nil && l.ctx.Err() != nil:
		c.fail(driver.ErrClosed)
		l.failure = driver.ErrClosed
	case err == nil:
		l.made++
		c.number = l.made
		l.conn, l.failure, l.failures = c, nil, 0
		l.work.Go(func() { l.guard(c) })
	default:
		l.failure = err
		pause := min(redialMost, redialLeast<<min(l.failures, 10))
		l.failures++
		l.next = time.Now().Add(pause/2 + rand.N(pause/2))
	}
	l.dialing = nil
	close(done)
	l.mu.Unlock()
	if err == nil && before != nil {
		before.work.Wait()
		if c.facts.pid != before.facts.pid || c.facts.started != before.facts.started {
			l.alarm.raise()
		}
	}
}

// guard makes a new connection when this one breaks, if there are claims: if the server has forgotten them, their holders
// should know soon.
func (l *link) guard(c *conn) {
	select {
	case <-c.broken:
	case <-l.ctx.Done():
	}
	again := time.NewTicker(redialMost)
	defer again.Stop()
	for l.ctx.Err() == nil && l.alarm.watched() {
		if _, err := l.get(l.ctx); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-l.ctx.Done():
		}
	}
}

// connect makes one connection and identifies the server.
func (l *link) connect() (*conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.dialTimeout)
	defer cancel()
	start := time.Now()
	failed := func(err error) error {
		switch {
		case l.ctx.Err() != nil:
			return driver.ErrClosed
		case ctx.Err() != nil:
			err = errors.New("no answer in time")
		}
		return driver.Unsent(driver.Unreachable(fmt.Errorf("cannot reach memcached at %s (tried for %v): %w",
			l.addr, time.Since(start).Round(time.Millisecond), err)))
	}
	sock, err := l.dialer().DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, failed(err)
	}
	c := newConn(sock, lookEvery)
	c.facts, err = l.greet(ctx, c)
	if err == nil {
		c.clock.see(c.facts.time)
		return c, nil
	}
	c.close(err)
	if refused, ok := errors.AsType[*refusal](err); ok {
		err = refused.explain()
	}
	if driver.NotApplied(err) {
		return nil, err
	}
	return nil, failed(err)
}

func (l *link) dialer() *net.Dialer { return &net.Dialer{Timeout: l.dialTimeout, KeepAlive: keepAlive} }

// close ends the connection and waits for the calls under way.
func (l *link) close() {
	l.cancel()
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.close(driver.ErrClosed)
	}
	l.work.Wait()
}
