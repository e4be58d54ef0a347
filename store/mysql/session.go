package mysql

import (
	"context"
	"crypto/sha256"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/work"
)

// A session keeps locks as user-level locks of the server (GET_LOCK), on a few connections. A claim that waits does so in the
// server, on a connection that has no lock; where there is none left for it, it tries now and then. It has no tables.
//
// A statement is never cut short by a caller's context, since that would end the connection and with it the claim.
type session struct {
	connector sqldriver.Connector
	says      *store // explains errors
	timeout   time.Duration
	most      int // connections
	promised  promise.Promise
	claims    sessionClaims
	life      *work.Life

	endangered atomic.Pointer[func(ids ...string)]

	mu     sync.Mutex     // guards what follows
	conns  []*sessionConn // that are not condemned
	making int            // connections that are being made
}

var _ interface {
	driver.Driver
	driver.Alerter
} = (*session)(nil)

const (
	defaultTimeout = 30 * time.Second
	leastTimeout   = 2 * time.Second

	waitStep   = 10 * time.Second // in one statement: a client that died does not wait in the server for longer
	buryWithin = time.Minute
	mostRest   = time.Second // between two attempts to bury a connection for which nobody waits
)

// longestLock is how many characters the name of a user-level lock may have in MySQL. MariaDB has room for 192.
const longestLock = 64

// lockName is the user-level lock of a name: the name itself, so that others who lock it by GET_LOCK are excluded, if it is
// plain and short; else a hash of it. MySQL takes names that differ in case only for one, and so they exclude each other; MariaDB does not.
func lockName(name string) string {
	plain := len(name) <= longestLock && strings.TrimSpace(name) == name && !strings.HasPrefix(strings.ToLower(name), "stile-") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\'' || r == '\\' })
	if plain {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return ("stile-" + hex.EncodeToString(sum[:]))[:longestLock]
}

// explain says what an error of a statement means.
func (s *session) explain(ctx context.Context, err error) error { return s.says.explain(ctx, err) }

// bound returns a context for a statement.
func (s *session) bound(more time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(s.life.Context(), min(patience, s.timeout)+more, errSlow)
}

// able returns why a claim cannot be kept.
func (s *session) able(c *driver.Claim) error {
	switch {
	case c.Capacity != driver.All:
		return fmt.Errorf("%w: user-level locks have no permits", driver.ErrUnsupported)
	case c.Weight != driver.All:
		return fmt.Errorf("%w: user-level locks are exclusive", driver.ErrUnsupported)
	case c.Delay > 0:
		return fmt.Errorf("%w: user-level locks have no lock-delay", driver.ErrUnsupported)
	}
	return nil
}

// call does something that goes on when the caller's context ends. With an error it may be done yet: what do writes must
// not be read then.
func (s *session) call(ctx context.Context, do func()) error {
	if s.life.Context().Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	done := make(chan struct{})
	if !s.life.Go(func() { defer close(done); do() }) {
		return driver.ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-s.life.Context().Done():
		return errClosing
	}
}

// Enter is one round trip.
func (s *session) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := s.able(c); err != nil {
		return driver.Place{}, err
	}
	var (
		claim = *c
		p     driver.Place
		err   error
	)
	if err := s.call(ctx, func() { p, err = s.enter(&claim) }); err != nil {
		return driver.Place{}, err
	}
	return p, err
}

func (s *session) enter(c *driver.Claim) (driver.Place, error) {
	s.expiring(c.ID)
	now := time.Now()
	own, added, err := s.claims.add(c, now)
	if err != nil {
		return driver.Place{}, err
	}
	held := false
	if added {
		held = s.begin(own, c.Try)
	}
	select {
	case <-own.answered:
	case <-s.life.Context().Done():
		return driver.Place{}, errClosing
	}
	if own.failed != nil {
		return driver.Place{}, own.failed
	}
	if !added {
		s.look(own)
	}
	if state, _ := s.claims.of(own); c.Try && state == claimOver {
		return driver.Place{Ahead: 1}, nil
	}
	return s.stay(own, c, now, held)
}

// stay starts the lease of a claim anew, which begins then. The server must have heard since that the client lives, unless
// the claim waits.
func (s *session) stay(own *sessionClaim, c *driver.Claim, then time.Time, held bool) (driver.Place, error) {
	for {
		p, done, err := s.claims.stay(own, c, then, s.timeout, held)
		if done || err != nil {
			return p, err
		}
		if held, err = s.beat(own); err != nil {
			return driver.Place{}, err
		}
	}
}

// Await waits until the claim has its lock.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if s.life.Context().Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	own, err := s.claims.find(c.ID)
	if err != nil {
		return driver.Place{}, err
	}
	for {
		if s.life.Context().Err() != nil {
			return driver.Place{}, driver.ErrClosed
		}
		switch state, _ := s.claims.of(own); state {
		case claimWaiting:
		case claimHolding:
			return driver.Place{Ticket: own.ticket, Holds: true}, nil
		default:
			return driver.Place{}, s.claims.why(c.ID)
		}
		select {
		case <-own.changed:
		case <-ctx.Done():
			return driver.Place{}, driver.Ended(ctx, true)
		case <-s.life.Context().Done():
			return driver.Place{}, driver.ErrClosed
		}
	}
}

// Renew is one round trip for each claim.
func (s *session) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return driver.Unamended(ctx, cs, s.Renew)
	}
	claims, answers := make([]driver.Claim, len(cs)), make([]driver.Renewal, len(cs))
	for i, c := range cs {
		claims[i] = *c
	}
	const atOnce = 8
	err := s.call(ctx, func() {
		work.Each(len(claims), atOnce, func(i int) { answers[i] = s.renew(&claims[i]) })
	})
	if err == nil {
		return answers
	}
	failed := make([]driver.Renewal, len(cs))
	for i := range failed {
		failed[i].Err = err
	}
	return failed
}

func (s *session) renew(c *driver.Claim) driver.Renewal {
	now := time.Now()
	own, err := s.claims.find(c.ID)
	if err != nil {
		return driver.Renewal{Err: err}
	}
	p, err := s.stay(own, c, now, false)
	return driver.Renewal{TTL: p.TTL, Err: err}
}

// Leave is one round trip. A claim that is kept leaves when its time is over, or with its connection.
func (s *session) Leave(ctx context.Context, l *driver.Release) error {
	var (
		id, keep = l.Claim.ID, l.Keep
		err      error
	)
	if err := s.call(ctx, func() { err = s.leave(id, keep) }); err != nil {
		return err
	}
	return err
}

func (s *session) leave(id string, keep time.Duration) error {
	own, err := s.claims.leaver(id)
	if err != nil {
		return err
	}
	select {
	case <-own.answered:
	case <-s.life.Context().Done():
		return errClosing
	}
	if keep > 0 && s.claims.keep(own, time.Now().Add(keep)) {
		return nil
	}
	if waited, err := s.giveUp(own); waited {
		return err
	}
	return s.release(own)
}

// giveUp ends a claim that waits, with the connection on which it does: the server could give it the lock yet.
func (s *session) giveUp(own *sessionClaim) (waited bool, err error) {
	own.busy.Lock()
	defer own.busy.Unlock()
	conn, waited := s.claims.doubt(own)
	switch {
	case !waited:
		return false, nil
	case !s.abandon(conn, own) && !s.isCondemned(conn):
		s.claims.move(own, claimOver)
		return true, nil
	}
	return true, s.prove(own, conn, errDoubtful)
}

// Alert is [driver.Alerter].
func (s *session) Alert(endangered func(ids ...string)) { s.endangered.Store(&endangered) }

// Traits tells what user-level locks can promise. The server is asked again after a connection was made anew.
func (s *session) Traits() driver.Traits { return s.promised.Traits() }

// Close ends the connections, and with them every claim.
func (s *session) Close() error {
	s.life.End()
	s.mu.Lock()
	all := slices.Clone(s.conns)
	for _, c := range all {
		_ = c.net.Close() // which fails if it is closed already
	}
	s.mu.Unlock()
	s.life.Wait()
	for _, c := range all {
		c.close()
	}
	return nil
}
