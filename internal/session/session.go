// Package session keeps the locks that a server gives to a connection and frees with it: PostgreSQL's advisory locks,
// MySQL's user-level locks. They need no tables and no disk, and have no tokens, no permits and no order.
//
// One connection, the home, has all locks of a client. Another one waits: in short statements, one after the other, each of
// which ends once the lock of one name was free for a moment. Then the home tries that lock. So the waiting connection has
// no lock, and a wait that is given up or unanswered leaves nothing behind.
//
// Only an answer of the home shows what the server has. A home without an answer is never used again, and all its locks and
// requests stay in doubt until the server no longer knows the connection: see [keyState].
package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// A Server has the locks.
type Server interface {
	// Connect makes a connection, or gives up soon. Its errors mean that nothing was sent.
	Connect(ctx context.Context) (Conn, error)

	// Gone ends a connection in the server, and reports whether the server no longer knows it.
	Gone(ctx context.Context, c Conn) bool

	// Key is the server's name for the lock of a name. Names of one lock have one key.
	Key(name string) string

	// Traits returns the promises of the locks.
	Traits() driver.Traits

	// Close ends the server's life, and returns once all its goroutines have ended.
	Close()
}

// A Conn is a connection with its locks. One goroutine at a time uses it.
type Conn interface {
	// Do does steps in order, without waiting, and reports which were done. Without steps it shows that the connection still
	// lives. After an error any step may have been done. The connection can be used again only if alive.
	Do(ctx context.Context, steps []Step) (done []bool, alive bool, err error)

	// Wait returns once a lock is free, or after a second, and leaves nothing locked. If ctx ends, the wait in the server has
	// ended too when Wait returns, as far as the server answers.
	Wait(ctx context.Context, key string, shared bool) error

	// Rest returns a channel that is closed if the connection ends before the next Do; nil if nothing can show that.
	Rest() <-chan struct{}

	// Close ends this side of the connection, without a wait.
	Close()
}

// A Step is one operation on one lock.
type Step struct {
	Key    string
	Shared bool
	Free   bool // unlock it; else try to lock it
}

const (
	defaultTimeout = 30 * time.Second
	leastTimeout   = 2 * time.Second
)

// Timeout takes the parameter session_timeout from an address: 2s or more, by default 30s.
func Timeout(a *driver.Address) (time.Duration, error) {
	timeout, err := a.Duration("session_timeout", defaultTimeout)
	if err == nil && timeout < leastTimeout {
		err = fmt.Errorf("parameter session_timeout must be %v or more", leastTimeout)
	}
	return timeout, err
}

// A Session is a driver of locks that live in a connection.
//
// One goroutine owns the home and the knowledge of all claims; the methods of the driver send it orders. A caller's context
// never cuts a statement short, since that would end the connection, and every claim with it.
type Session struct {
	server     Server
	first      driver.Traits // the promises when the session began; asking for them again may cost a request
	life       *work.Life
	timeout    time.Duration // the server ends a connection after this silence
	within     time.Duration // the limit of a statement; then the connection is given up
	orders     chan *order
	proven     chan Conn // connections that the server no longer knows
	endangered atomic.Pointer[func(ids ...string)]

	// The loop alone uses the fields below.
	claims *claims
	home   Conn      // nil for none
	spoke  time.Time // before the home's last answered statement
	beat   bool      // send the next statement even without steps
	scout  scout
	look   time.Time // when to try the waiting claims again
}

var _ interface {
	driver.Driver
	driver.Alerter
} = (*Session)(nil)

// New returns a session with its first connection. It ends with the life.
func New(server Server, life *work.Life, timeout time.Duration, home Conn) *Session {
	s := &Session{
		server: server, first: server.Traits(), life: life, timeout: timeout, within: min(answerWithin, timeout),
		orders: make(chan *order), proven: make(chan Conn), claims: newClaims(timeout), home: home, spoke: time.Now(),
	}
	s.scout = scout{s: s, back: make(chan error, 1)}
	life.Go(s.run)
	return s
}

// able returns an error if the session cannot keep a claim.
func (s *Session) able(c *driver.Claim) error {
	t := s.first
	switch {
	case c.Capacity != driver.All:
		return fmt.Errorf("%w: the locks of %s have no permits", driver.ErrUnsupported, t.Store)
	case c.Weight != driver.All && (c.Weight != 1 || !t.Shared):
		return fmt.Errorf("%w: the locks of %s are exclusive%s", driver.ErrUnsupported, t.Store,
			map[bool]string{true: " or shared"}[t.Shared])
	case c.Delay > 0:
		return fmt.Errorf("%w: the locks of %s have no lock-delay", driver.ErrUnsupported, t.Store)
	}
	return nil
}

// An order is work for the loop, before and after its next statement.
type order struct {
	ctx    context.Context
	before func(now time.Time)
	after  func(err error) // err is the statement's
	done   chan struct{}
}

var errClosing = errors.New("the client was closed while the server had the request")

// order gives the loop an order. After an error the loop may still execute it: the caller must not read its results.
func (s *Session) order(ctx context.Context, before func(now time.Time), after func(err error)) error {
	if s.life.Context().Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	o := &order{ctx, before, after, make(chan struct{})}
	select {
	case s.orders <- o:
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	case <-s.life.Context().Done():
		return driver.ErrClosed
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-s.life.Context().Done():
		return errClosing
	}
}

// Enter is one round trip.
func (s *Session) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := s.able(c); err != nil {
		return driver.Place{}, err
	}
	for {
		e := &entry{s: s, Claim: *c}
		if err := s.order(ctx, e.before, e.after); err != nil {
			return driver.Place{}, err
		}
		switch {
		case e.err == nil && e.doubt != nil:
			if !s.await(ctx, e.doubt, proveWithin) {
				return driver.Place{}, driver.Unsent(errDoubtful)
			}
		case e.err != nil || !e.scouted || !s.await(ctx, e.own.settled, momentOfScout):
			return e.place, e.err
		}
	}
}

// await waits until a channel is closed, within a time, and reports whether it is.
func (s *Session) await(ctx context.Context, closed <-chan struct{}, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-s.life.Context().Done():
	}
	return false
}

// Await waits until the loop has the lock, or the claim is gone.
func (s *Session) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	for {
		var (
			own *claim
			p   = driver.Place{Ticket: c.Ticket}
			err error
		)
		look := func(time.Time) {
			if own, err = s.claims.find(c.ID); err == nil {
				p.Holds = own.state == claimHolding
			}
		}
		if err := s.order(ctx, look, nil); err != nil {
			return driver.Place{}, err
		}
		if err != nil || p.Holds {
			return p, err
		}
		select {
		case <-own.settled:
		case <-ctx.Done():
			return driver.Place{}, driver.Ended(ctx, true)
		case <-s.life.Context().Done():
			return driver.Place{}, driver.ErrClosed
		}
	}
}

// Renew is one round trip, which shows for all claims that the connection lives.
func (s *Session) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return driver.Unamended(ctx, cs, s.Renew)
	}
	entries, answers := make([]*entry, len(cs)), make([]driver.Renewal, len(cs))
	for i, c := range cs {
		entries[i] = &entry{s: s, Claim: *c, renews: true}
	}
	err := s.order(ctx, func(now time.Time) {
		for _, e := range entries {
			e.before(now)
		}
	}, func(err error) {
		for _, e := range entries {
			e.after(err)
		}
	})
	for i, e := range entries {
		if err != nil {
			answers[i].Err = err
		} else {
			answers[i] = driver.Renewal{TTL: e.place.TTL, Err: e.err}
		}
	}
	return answers
}

// Leave is one round trip. A kept claim leaves when its time is over, or with its connection. If the server did not confirm
// that the lock is free, Leave waits a while for the proof that the connection has ended.
func (s *Session) Leave(ctx context.Context, r *driver.Release) error {
	d := &departure{s: s, id: r.Claim.ID, keep: r.Keep}
	if err := s.order(ctx, d.before, d.after); err != nil {
		return err
	}
	if d.err == nil || driver.OutcomeOf(d.err) != driver.OutcomeUnknown || !s.await(ctx, d.own.over, proveWithin) {
		return d.err
	}
	return nil
}

// Alert is [driver.Alerter].
func (s *Session) Alert(endangered func(ids ...string)) { s.endangered.Store(&endangered) }

// Traits returns the promises of the locks.
func (s *Session) Traits() driver.Traits { return s.server.Traits() }

// Close ends the connections, and with them every claim.
func (s *Session) Close() error {
	s.server.Close()
	return nil
}
