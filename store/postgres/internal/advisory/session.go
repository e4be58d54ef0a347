// Package advisory keeps locks as PostgreSQL's advisory locks, all of one client on one connection. They need no tables and
// no disk, and are gone with the connection. They have no tokens, no permits and no order.
//
// A claim that waits does so in the server, on a second connection, and holds there what it has come to hold:
//
//	            main has no keys: it takes the place of main, and main its place
//	        ┌──────────────────────────────────────────────────────────────────┐
//	┌───────┴──────┐    its key was free     ┌─────────────────┐               │
//	│ spare: waits │────────────────────────►│ a key is locked │───────────────┘
//	│ in the server│                         └────────┬────────┘
//	└──────────────┘                                  │ main has keys
//	        ▲         it has no keys any more         ▼
//	        └────────────────────────────── second: holds beside main ──► main, once that has no keys
//
// A connection that waits has no key, so PostgreSQL sees no circle of waiting sessions where there is none. There are three
// at most; while two have keys, what waits in the server locks its key for a moment only, and the claim is tried on main.
// [crew] moves the connections, [scout] has the states of waiting, and [state] those of a claim.
package advisory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A session keeps locks as PostgreSQL's advisory locks. It has no tables.
//
// One goroutine owns the connections and all that is known of claims; the verbs are orders to it. A statement is never
// cut short by a caller's context, since that would end the connection and with it every claim.
type session struct {
	link       *link.Link
	key        func(name string) int64
	timeout    time.Duration // the server ends a connection from which it hears nothing for so long
	traits     driver.Traits
	orders     chan *order
	proven     chan *ghost // those of which the server knows no more
	endangered atomic.Pointer[func(ids ...string)]

	// What follows is the loop's own.
	crew   crew
	scout  scout
	claims *claims
	look   time.Time     // when those that wait are tried again
	pause  time.Duration // how long that is after the last time
}

var _ interface {
	driver.Driver
	driver.Alerter
} = (*session)(nil)

const (
	defaultTimeout = 30 * time.Second
	leastTimeout   = 2 * time.Second
)

// Open opens a store whose locks live in the connection. Parameters, besides those of the link: session_timeout.
func Open(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	timeout, err := a.Duration("session_timeout", defaultTimeout)
	if err == nil && timeout < leastTimeout {
		err = fmt.Errorf("parameter session_timeout must be %v or more", leastTimeout)
	}
	if err != nil {
		return nil, driver.Refused(err)
	}
	l, err := link.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	s := &session{
		link: l, key: Key, timeout: timeout,
		orders: make(chan *order), proven: make(chan *ghost), claims: newClaims(), scout: scout{link: l, back: make(chan error, 1)},
	}
	s.crew = newCrew(func() *backend {
		b := &backend{link: l, timeout: timeout}
		b.over = func(silent bool) { s.over(b, silent) }
		return b
	})
	err = s.crew.main.connect(ctx)
	if ended := driver.Ended(ctx, false); ended != nil {
		err = ended
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.traits = promise(&s.crew.main.server, timeout)
	l.Go(s.run)
	return s, nil
}

// promise says what advisory locks are good for.
func promise(v *link.Server, timeout time.Duration) driver.Traits {
	t := driver.Traits{
		Store: "postgres session", Server: v.Product(), Shared: true, OwnClient: true, Clock: "session", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	t.Note("All locks of a client live on one connection, or on two if it has waited, and are freed when it ends. " +
		"Ending it (pg_terminate_backend, a restart, a failover) frees them at once, while their holder finds out " +
		"when the end of the connection reaches it, or at the latest when its lease ends: for that time two may hold.")
	if endsIdle(v) {
		t.Note("The server ends the session of a client that it has not heard for %v (idle_session_timeout), "+
			"which frees its locks.", timeout)
	} else {
		t.Warn("PostgreSQL 14 or later", "The server has no idle_session_timeout: "+
			"it frees the locks of a client that froze when TCP ends the connection.")
	}
	t.Note("Waiters come in no order: readers that come and go without a gap keep a writer out.")
	t.Note("Keys are 64 bits of a hash, in one space with all other advisory locks of the database: " +
		"names with one key keep each other out.")
	t.Note("A claim that holds cannot be changed: an advisory lock has no record.")
	return t
}

// able returns why a claim cannot be kept.
func able(c *driver.Claim) error {
	switch {
	case c.Capacity != driver.All:
		return fmt.Errorf("%w: advisory locks have no permits", driver.ErrUnsupported)
	case c.Weight != 1 && c.Weight != driver.All:
		return fmt.Errorf("%w: advisory locks are exclusive or shared", driver.ErrUnsupported)
	case c.Delay > 0:
		return fmt.Errorf("%w: advisory locks have no lock-delay", driver.ErrUnsupported)
	}
	return nil
}

// An order is something that the loop is to do.
type order struct {
	ctx  context.Context
	do   func()
	done chan struct{}
}

// order has the loop do something. With an error it may be done yet: what do writes must not be read then.
func (s *session) order(ctx context.Context, do func()) error {
	if s.link.Context().Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	o := &order{ctx, do, make(chan struct{})}
	select {
	case s.orders <- o:
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	case <-s.link.Context().Done():
		return driver.ErrClosed
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-s.link.Context().Done():
		return errors.New("the client was closed while postgres had the request")
	}
}

// Enter is one round trip.
func (s *session) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := able(c); err != nil {
		return driver.Place{}, err
	}
	var (
		claim = *c
		p     driver.Place
		err   error
	)
	if err := s.order(ctx, func() { p, err = s.enter(&claim) }); err != nil {
		return driver.Place{}, err
	}
	return p, err
}

// Await waits until the loop has the lock, which it tries to get now and then.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	id := c.ID
	for {
		var (
			own   *heldClaim
			holds bool
			err   error
		)
		if err := s.order(ctx, func() {
			own, holds = s.claims.byID[id], s.claims.holds(id)
			switch {
			case own == nil || own.state == claimKept:
				err = s.claims.gone(id)
			case own.state == claimDoubtful:
				err = driver.Unknown(errDoubtful)
			}
		}); err != nil {
			return driver.Place{}, err
		}
		if err != nil || holds {
			return driver.Place{Ticket: c.Ticket, Holds: holds}, err
		}
		select {
		case next := <-own.changed:
			if next == claimHolding {
				return driver.Place{Ticket: c.Ticket, Holds: true}, nil
			}
		case <-ctx.Done():
			return driver.Place{}, driver.Ended(ctx, true)
		case <-s.link.Context().Done():
			return driver.Place{}, driver.ErrClosed
		}
	}
}

// Renew is one round trip, which shows that the session lives, for all claims.
func (s *session) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return driver.Unamended(ctx, cs, s.Renew)
	}
	var (
		claims  = make([]driver.Claim, len(cs))
		answers = make([]driver.Renewal, len(cs))
	)
	for i, c := range cs {
		claims[i] = *c
	}
	err := s.order(ctx, func() { s.renew(claims, answers) })
	if err == nil {
		return answers
	}
	failed := make([]driver.Renewal, len(cs))
	for i := range failed {
		failed[i].Err = err
	}
	return failed
}

// Leave is one round trip. A claim that is kept leaves when its time is over, or with the session. If the server did not say
// that the key is unlocked, Leave waits for a while until the end of the connection is proven.
func (s *session) Leave(ctx context.Context, l *driver.Release) error {
	var (
		id, keep = l.Claim.ID, l.Keep
		own      *heldClaim
		err      error
	)
	if err := s.order(ctx, func() {
		own = s.claims.byID[id]
		err = s.leave(id, keep)
	}); err != nil {
		return err
	}
	if err == nil || own == nil || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		return err
	}
	timer := time.NewTimer(proveWithin)
	defer timer.Stop()
	select {
	case <-own.over:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	case <-s.link.Context().Done():
	}
	return err
}

// Alert is [driver.Alerter].
func (s *session) Alert(endangered func(ids ...string)) { s.endangered.Store(&endangered) }

// Traits tells what advisory locks can promise.
func (s *session) Traits() driver.Traits { return s.traits }

// Close ends the session, and with it every claim.
func (s *session) Close() error {
	s.link.Close()
	return nil
}
