// Package session keeps the locks that a server gives to a connection and frees with it: PostgreSQL's advisory locks, MySQL's
// user-level locks. They need no tables and no disk. They have no tokens, no permits and no order.
//
// One connection, the home, has all locks of a client. Another one waits: in short statements, one after the other, each of
// which ends once the lock of one name was free for a moment. Then that lock is tried at home. So what waits has no lock, and a
// wait that is given up or gets no answer leaves nothing behind.
//
// What the server has is known only by an answer of the home. A home without an answer is never used again, and all that it had
// or was asked for stays in doubt until the server says that it knows the connection no more: see [keyState].
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

// A Server is where the locks are.
type Server interface {
	// Connect makes a connection, or gives up soon. Its errors say that nothing was sent.
	Connect(ctx context.Context) (Conn, error)

	// Gone ends the rest of a connection in the server, and reports whether the server knows it no more.
	Gone(ctx context.Context, c Conn) bool

	// Key is the server's name for the lock of a name. Names of one lock have one key.
	Key(name string) string

	// Traits returns the promises of the locks.
	Traits() driver.Traits

	// Close ends the server's life, and returns once all that it began has ended.
	Close()
}

// A Conn is a connection with the locks that it has. One goroutine at a time uses it.
type Conn interface {
	// Do does steps in their order, none of which waits, and reports which were done. Without steps it shows that this is still
	// the same connection. After an error any of them may be done. The connection can be used again only if it is alive.
	Do(ctx context.Context, steps []Step) (done []bool, alive bool, err error)

	// Wait returns once a lock is free, after a second at most, and has locked nothing then. If ctx ends, what waits in the server
	// has ended too when Wait returns, as far as the server answers.
	Wait(ctx context.Context, key string, shared bool) error

	// Rest returns a channel that is closed when the connection ends before the next Do; nil if that cannot be known.
	Rest() <-chan struct{}

	// Close ends this side of the connection, and waits for nobody.
	Close()
}

// A Step is one thing to do with one lock.
type Step struct {
	Key    string
	Shared bool
	Free   bool // unlock it; else try to lock it
}

const (
	defaultTimeout = 30 * time.Second
	leastTimeout   = 2 * time.Second
)

// Timeout takes the parameter session_timeout out of an address.
func Timeout(a *driver.Address) (time.Duration, error) {
	timeout, err := a.Duration("session_timeout", defaultTimeout)
	if err == nil && timeout < leastTimeout {
		err = fmt.Errorf("parameter session_timeout must be %v or more", leastTimeout)
	}
	return timeout, err
}

// A Session is a driver of locks that live in a connection.
//
// One goroutine owns the home and all that is known of claims; the verbs are orders to it. A statement is never cut short by a
// caller's context, since that would end the connection and with it every claim.
type Session struct {
	server     Server
	first      driver.Traits // the promises when the session began; asking for them again may cost a request
	life       *work.Life
	timeout    time.Duration // the server ends a connection that was silent for so long
	within     time.Duration // so long a statement may take; then the connection is given up
	orders     chan *order
	proven     chan Conn // of which the server knows no more
	endangered atomic.Pointer[func(ids ...string)]

	// What follows is the loop's own.
	claims *claims
	home   Conn      // nil: there is none
	spoke  time.Time // before the last statement at home that was answered
	beat   bool      // the next statement is sent even without steps
	scout  scout
	look   time.Time // when those that wait are tried again
}

var _ interface {
	driver.Driver
	driver.Alerter
} = (*Session)(nil)

// New returns a session that lasts for as long as a life, with its first connection.
func New(server Server, life *work.Life, timeout time.Duration, home Conn) *Session {
	s := &Session{
		server: server, first: server.Traits(), life: life, timeout: timeout, within: min(answerWithin, timeout),
		orders: make(chan *order), proven: make(chan Conn), claims: newClaims(timeout), home: home, spoke: time.Now(),
	}
	s.scout = scout{s: s, back: make(chan error, 1)}
	life.Go(s.run)
	return s
}

// able returns why a claim cannot be kept.
func (s *Session) able(c *driver.Claim) error {
	t := s.first
	switch {
	case c.Capacity != driver.All:
		return fmt.Errorf("%w: the locks of %s have no permits", driver.ErrUnsupported, t.Store)
	case c.Weight != driver.All && (c.Weight != 1 || !t.Shared):
		return fmt.Errorf("%w: the locks of %s are exclusive%s", driver.ErrUnsupported, t.Store, map[bool]string{true: " or shared"}[t.Shared])
	case c.Delay > 0:
		return fmt.Errorf("%w: the locks of %s have no lock-delay", driver.ErrUnsupported, t.Store)
	}
	return nil
}

// An order is something that the loop is to do: what comes before its next statement, and what comes after.
type order struct {
	ctx    context.Context
	before func(now time.Time)
	after  func(err error) // err is the statement's
	done   chan struct{}
}

var errClosing = errors.New("the client was closed while the server had the request")

// order gives the loop an order. After an error the order may still be done: its results must not be read then.
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

// await waits until something is closed, for some time at most, and reports whether it is.
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

// Renew is one round trip, which shows that the connection lives, for all claims.
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

// Leave is one round trip. A claim that is kept leaves when its time is over, or with its connection. If the server did not say
// that the lock is free, Leave waits for a while until the end of the connection is proven.
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
