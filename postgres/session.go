package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
)

// A session keeps locks as PostgreSQL's advisory locks, all on one connection. It has no tables.
//
// One goroutine owns the connection and all that is known of claims; the verbs are orders to it. A statement is never
// cut short by a caller's context, since that would end the connection and with it every claim.
type session struct {
	db         *Driver // connects, and explains errors
	key        func(name string) int64
	timeout    time.Duration // the server ends a session from which it hears nothing for so long
	traits     driver.Traits
	orders     chan *order
	endangered atomic.Pointer[func(ids ...string)]

	// What follows is the loop's own.
	link
	stands map[string]*stand // by the claim's id
	doors  map[int64]*door   // by key: what this session has locked
	line   []*stand          // those that wait, as they came
	fallen map[string]bool   // ids of claims that the last session took with it
	serial int64             // the last ticket
	due    time.Time         // no claim ends before
	look   time.Time         // when those that wait are tried again
	pause  time.Duration     // how long that is after the last time
}

// A stand is a claim of this client.
type stand struct {
	id          string
	key         int64
	ticket      int64
	shared      bool
	holds, left bool
	ends        time.Time
	changed     chan struct{} // has room for one
}

// A door is a key that the session has locked, once on the server for however many share it. Names with one key have
// one door, so they keep each other out within the session as the server does between sessions.
type door struct {
	shared  bool
	holders int
}

var _ interface {
	driver.Driver
	driver.Alerter
} = (*session)(nil)

const (
	defaultSessionTimeout = 30 * time.Second
	leastSessionTimeout   = 2 * time.Second
)

// openSession opens a store whose locks live in the connection.
func openSession(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	timeout, err := a.Duration("session_timeout", defaultSessionTimeout)
	if err == nil && timeout < leastSessionTimeout {
		err = fmt.Errorf("parameter session_timeout must be %v or more", leastSessionTimeout)
	}
	if err != nil {
		return nil, driver.Refused(err)
	}
	config, err := poolConfig(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	dialer := &dialer{open: map[*tracked]bool{}}
	config.ConnConfig.DialFunc = dialer.dial
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, driver.Refused(errors.New(unquoted(err, a.Password)))
	}
	s := &session{
		key: advisoryKey, timeout: timeout, orders: make(chan *order), stands: map[string]*stand{}, doors: map[int64]*door{},
		db: &Driver{pool: pool, dialer: dialer, secret: a.Password, user: config.ConnConfig.User},
	}
	s.db.ctx, s.db.cancel = context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, s.db.cancel)
	err = s.connect()
	if !stop() {
		err = driver.Ended(ctx, false)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.db.spawn(s.run)
	return s, nil
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
	if s.db.ctx.Err() != nil {
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
	case <-s.db.ctx.Done():
		return driver.ErrClosed
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-s.db.ctx.Done():
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
			st    *stand
			holds bool
			err   error
		)
		if err := s.order(ctx, func() {
			if st = s.stands[id]; st == nil || st.left {
				err = s.gone(id)
			} else {
				holds = st.holds
			}
		}); err != nil {
			return driver.Place{}, err
		}
		if err != nil || holds {
			return driver.Place{Ticket: c.Ticket, Holds: holds}, err
		}
		select {
		case <-st.changed:
		case <-ctx.Done():
			return driver.Place{}, driver.Ended(ctx, true)
		case <-s.db.ctx.Done():
			return driver.Place{}, driver.ErrClosed
		}
	}
}

// Renew is one round trip, which shows that the session lives, for all claims.
func (s *session) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
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

// Leave is one round trip. A claim that is kept leaves when its time is over, or with the session.
func (s *session) Leave(ctx context.Context, l *driver.Departure) error {
	var (
		id, keep = l.Claim.ID, l.Keep
		err      error
	)
	if err := s.order(ctx, func() { err = s.leave(id, keep) }); err != nil {
		return err
	}
	return err
}

// Alert is [driver.Alerter].
func (s *session) Alert(endangered func(ids ...string)) { s.endangered.Store(&endangered) }

// Traits tells what advisory locks can promise.
func (s *session) Traits() driver.Traits { return s.traits }

// Close ends the session, and with it every claim.
func (s *session) Close() error { return s.db.Close() }

// tryLock and unlock are the statements, for exclusive and shared locks. Each tells which backend has answered.
var (
	tryLock = map[bool]string{
		false: "SELECT pg_backend_pid(), pg_try_advisory_lock($1::bigint)",
		true:  "SELECT pg_backend_pid(), pg_try_advisory_lock_shared($1::bigint)",
	}
	unlock = map[bool]string{
		false: "SELECT pg_backend_pid(), pg_advisory_unlock($1::bigint)",
		true:  "SELECT pg_backend_pid(), pg_advisory_unlock_shared($1::bigint)",
	}
)

// named has a statement prepared on the connection the first time.
const named = pgx.QueryExecModeCacheStatement
