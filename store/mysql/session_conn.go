package mysql

import (
	"context"
	"crypto/rand"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// A connState is how a connection of a session stands:
//
//	     ┌──────┐ a claim waits on it ┌─────────┐
//	────►│ open │────────────────────►│ waiting │
//	     └──┬───┘◄────────────────────└────┬────┘
//	        │     it got the lock, or not  │
//	        │                              │ an error, no answer, or
//	        ▼                              ▼ the server ended it
//	     ┌───────────┐  it is proven to be gone  ┌──────┐
//	     │ condemned │──────────────────────────►│ gone │
//	     └───────────┘                           └──────┘
//
// What carried a request of unknown outcome is condemned and never used again. It is gone once the server has said that it
// knows the connection no more: then whatever locks it had are free.
type connState int

const (
	connOpen connState = iota
	connWaiting
	connCondemned
	connGone
)

// connMoves are the ways that a connection can go.
var connMoves = map[connState][]connState{
	connOpen:      {connWaiting, connCondemned},
	connWaiting:   {connOpen, connCondemned},
	connCondemned: {connGone},
}

// A sessionConn is one connection with the locks of any number of claims, or on which one claim waits. A lock is asked for on
// a connection that does not have it, since the server would give it a second time there.
//
// It has a lock of its own, its tag, whose name nobody else knows: by it the server is asked whether the connection is still
// there, whatever its number.
type sessionConn struct {
	raw sqldriver.Conn
	net net.Conn // below raw
	tag string
	id  int64 // as the server calls it

	asks      atomic.Int32 // statements that are under way, or wait for it, and callers that will ask
	statement sync.Mutex   // held while the connection is used
	spoke     time.Time    // before the last statement that was answered; guarded by statement

	// What follows is guarded by the mutex of the session.
	state connState                // moved by turn
	locks map[string]*sessionClaim // that it has or is asked for, by key
}

// turn moves a connection, and reports whether it did. A way that is not drawn is not gone.
func (c *sessionConn) turn(next connState) bool {
	if !slices.Contains(connMoves[c.state], next) {
		return false
	}
	c.state = next
	return true
}

var (
	errMoved = errors.New("the lock's connection leads to another one of the server than before, as through a proxy " +
		"that shares connections")
	errNumbers = errors.New("the server answered with something else than numbers")
)

// ask runs a statement with one row of numbers, of which the last is CONNECTION_ID(), and returns the others. NULL is less
// than any number. An error leaves the outcome unknown, unless it is a refusal of the server.
func (c *sessionConn) ask(ctx context.Context, statement string) (numbers []int64, err error) {
	c.asks.Add(1)
	defer c.asks.Add(-1)
	within := time.Until(deadlineOf(ctx))
	c.statement.Lock()
	defer c.statement.Unlock()
	// The time is the server's. That others had the connection until now says nothing against it.
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})()
	now := time.Now()
	numbers, err = numbersOf(fresh, c.raw, statement)
	if err != nil {
		return nil, err
	}
	c.spoke = now
	n := len(numbers) - 1
	if c.id != 0 && numbers[n] != c.id {
		return nil, driver.Unreachable(errMoved)
	}
	return numbers, nil
}

// deadlineOf is when a context ends at the latest.
func deadlineOf(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(patience)
}

// numbersOf runs a statement with one row of numbers.
func numbersOf(ctx context.Context, conn sqldriver.Conn, statement string) ([]int64, error) {
	rows, err := conn.(sqldriver.QueryerContext).QueryContext(ctx, statement, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := make([]sqldriver.Value, len(rows.Columns()))
	if err := rows.Next(values); err != nil {
		return nil, err
	}
	numbers := make([]int64, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			numbers[i] = math.MinInt64
		case int64:
			numbers[i] = v
		case uint64: // as MySQL answers CONNECTION_ID
			if v > math.MaxInt64 {
				return nil, errNumbers
			}
			numbers[i] = int64(v)
		case []byte:
			if _, err := fmt.Sscan(string(v), &numbers[i]); err != nil {
				return nil, errNumbers
			}
		default:
			return nil, errNumbers
		}
	}
	if err := rows.Next(values); !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, errNumbers)
	}
	return numbers, nil
}

// A dialled is where the dialler puts the connection below.
type dialled struct{}

// connect makes a connection. Its errors say that what it is for was not sent.
func (s *session) connect(ctx context.Context, state connState) (*sessionConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	c := &sessionConn{tag: "stile-conn-" + rand.Text(), state: state, locks: map[string]*sessionClaim{}}
	raw, err := s.connector.Connect(context.WithValue(ctx, dialled{}, &c.net))
	if err != nil {
		return nil, driver.NotYet(s.explain(ctx, err))
	}
	c.raw = raw
	set := fmt.Sprintf("SET SESSION wait_timeout = %d", int(math.Ceil(s.timeout.Seconds())))
	if _, err = raw.(sqldriver.ExecerContext).ExecContext(ctx, set, nil); err == nil {
		var got []int64
		got, err = c.ask(ctx, "SELECT GET_LOCK('"+c.tag+"', 0), "+acceptsWrites+", CONNECTION_ID()")
		switch {
		case err != nil:
		case got[1] != 1:
			raw.Close()
			return nil, driver.Refused(driver.Unreachable(errReadOnly))
		case got[0] == 1:
			c.id = got[2]
			return c, nil
		}
	}
	raw.Close()
	if err == nil {
		err = driver.Refused(errors.New("the server does not give a user-level lock that nobody has (GET_LOCK)"))
	}
	return nil, driver.NotYet(s.explain(ctx, err))
}

// acceptsWrites is 1 unless the server is read-only, as a replica is, which has user-level locks of its own and knows nothing of
// the primary's. Newer versions of MariaDB have a word there, and the others a number.
const acceptsWrites = "CONCAT(@@GLOBAL.read_only) IN ('0', 'OFF')"

// add makes one more connection, of which the mutex, which must be held and is released, has seen that it may be. It is for the
// lock of a claim; if that is nil, for one that asks.
func (s *session) add(ctx context.Context, own *sessionClaim, state connState) (*sessionConn, error) {
	s.making++
	s.mu.Unlock()
	c, err := s.connect(ctx, state)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making--
	if err != nil {
		return nil, err
	}
	if s.life.Context().Err() != nil {
		c.raw.Close()
		return nil, driver.ErrClosed
	}
	if own != nil {
		c.locks[own.key] = own
	} else {
		c.asks.Add(1)
	}
	s.conns = append(s.conns, c)
	s.watch(c)
	return c, nil
}

// take returns a connection to ask for a claim's lock on: one that nobody uses now, or a new one, or any. It is nil if there
// can be none, since all have this lock or wait.
func (s *session) take(ctx context.Context, own *sessionClaim) (best *sessionConn, err error) {
	if s.life.Context().Err() != nil {
		return nil, driver.ErrClosed
	}
	s.mu.Lock()
	for _, c := range s.conns {
		if c.state == connOpen && c.locks[own.key] == nil && (best == nil || c.asks.Load() < best.asks.Load()) {
			best = c
		}
	}
	if len(s.conns)+s.making < s.most && (best == nil || best.asks.Load() > 0) {
		return s.add(ctx, own, connOpen)
	}
	defer s.mu.Unlock()
	if best != nil {
		best.locks[own.key] = own
	}
	return best, nil
}

// takeAlone returns a connection for a claim to wait on, which has no lock. It is nil if there can be none: one connection is
// left for those that do not wait.
func (s *session) takeAlone(ctx context.Context, own *sessionClaim) (*sessionConn, error) {
	if s.life.Context().Err() != nil {
		return nil, driver.ErrClosed
	}
	s.mu.Lock()
	open, room := 0, s.most-len(s.conns)-s.making
	var free *sessionConn
	for _, c := range s.conns {
		if c.state == connOpen {
			open++
			if len(c.locks) == 0 && c.asks.Load() == 0 {
				free = c
			}
		}
	}
	if free == nil && room > 0 && open+room > 1 {
		return s.add(ctx, own, connWaiting)
	}
	defer s.mu.Unlock()
	if free == nil || open+room < 2 || !free.turn(connWaiting) {
		return nil, nil
	}
	free.locks[own.key] = own
	return free, nil
}

// takeAny returns a connection to ask something on that is about no lock of its own: the one with the least to do, or a new one
// if all wait. It is nil if there can be none. Nobody waits on it until the caller has taken 1 from its asks.
func (s *session) takeAny(ctx context.Context) (best *sessionConn, err error) {
	if s.life.Context().Err() != nil {
		return nil, driver.ErrClosed
	}
	s.mu.Lock()
	for _, c := range s.conns {
		if c.state == connOpen && (best == nil || c.asks.Load() < best.asks.Load()) {
			best = c
		}
	}
	if best == nil && len(s.conns)+s.making < s.most {
		return s.add(ctx, nil, connOpen)
	}
	defer s.mu.Unlock()
	if best != nil {
		best.asks.Add(1)
	}
	return best, nil
}

// waitsOn reports whether a claim waits on a connection.
func (s *session) waitsOn(c *sessionConn, own *sessionClaim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c != nil && c.state == connWaiting && c.locks[own.key] == own
}

// free notes that a connection does not have the lock of a claim, or no more. Nobody waits on it.
func (s *session) free(c *sessionConn, own *sessionClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.locks, own.key)
	if c.state == connWaiting {
		c.turn(connOpen)
	}
}

// holdOn has a claim hold on a connection that has got its lock, unless the connection has ended since: whoever ended it has told
// only the claims that held on it.
func (s *session) holdOn(own *sessionClaim, c *sessionConn, then time.Time) (holds, over, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state == connCondemned || c.state == connGone {
		s.claims.waitsOn(own, c)
		return false, false, true
	}
	if holds, over = s.claims.hold(own, c, then); holds && c.state == connWaiting {
		c.turn(connOpen)
	}
	return holds, over, false
}

// condemn ends a connection that is never to be used again, here at once and in the server in the background. All claims
// that hold on it are lost.
func (s *session) condemn(c *sessionConn) {
	s.condemnIf(c, func() bool { return true })
}

// abandon condemns the connection on which a claim waits, and reports whether it did. One on which it waits no more may have
// another's lock by now.
func (s *session) abandon(c *sessionConn, own *sessionClaim) bool {
	return c != nil && s.condemnIf(c, func() bool { return c.state == connWaiting && c.locks[own.key] == own })
}

// condemnIf condemns a connection if a condition holds in that moment.
func (s *session) condemnIf(c *sessionConn, condition func() bool) bool {
	s.mu.Lock()
	if !condition() || !c.turn(connCondemned) {
		s.mu.Unlock()
		return false
	}
	s.conns = slices.DeleteFunc(s.conns, func(other *sessionConn) bool { return other == c })
	var ids []string
	for _, own := range c.locks {
		if s.claims.fall(own, c, s.timeout) {
			ids = append(ids, own.id)
		}
	}
	s.mu.Unlock()
	_ = c.net.Close() // also under a statement that waits in the server
	s.life.Go(func() {
		c.close()
		s.burySurely(c)
	})
	if f := s.endangered.Load(); f != nil && len(ids) > 0 && s.life.Context().Err() == nil {
		(*f)(ids...)
	}
	return true
}

// close frees what a connection took here, once nobody uses it.
func (c *sessionConn) close() {
	c.statement.Lock()
	defer c.statement.Unlock()
	c.raw.Close()
}

// bury returns once the server knows a condemned connection no more, and ends it there.
func (s *session) bury(ctx context.Context, c *sessionConn) error {
	ctx, cancel := context.WithTimeout(ctx, buryWithin)
	defer cancel()
	if s.isGone(c) {
		return nil
	}
	raw, err := s.connector.Connect(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		got, err := numbersOf(ctx, raw, "SELECT IS_USED_LOCK('"+c.tag+"'), "+acceptsWrites)
		if err == nil && got[1] != 1 {
			err = errReadOnly
		}
		if err != nil {
			return err
		}
		if got[0] == unowned {
			s.mu.Lock()
			c.turn(connGone)
			s.mu.Unlock()
			return nil
		}
		// It may be gone by now, which is an error. Its number is nobody else's, since the tag is asked for it here.
		_, err = raw.(sqldriver.ExecerContext).ExecContext(ctx, "KILL IS_USED_LOCK('"+c.tag+"')", nil)
		if err != nil && number(err) == 0 {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// burySurely is bury, again and again while the server cannot be reached: it may not hear of the end itself for long.
func (s *session) burySurely(c *sessionConn) {
	for pause := leastPause; s.bury(s.life.Context(), c) != nil; pause = min(2*pause, mostRest) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.life.Context().Done():
			timer.Stop()
			return
		}
	}
}

// end ends a connection and all that it has in the server, and reports whether that is proven within the time of a call.
func (s *session) end(ctx context.Context, c *sessionConn) bool {
	s.condemn(c)
	return s.bury(ctx, c) == nil
}

// isCondemned reports whether a connection is condemned, and not proven to be gone.
func (s *session) isCondemned(c *sessionConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c != nil && c.state == connCondemned
}

func (s *session) isGone(c *sessionConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.state == connGone
}

// watch has the end of a connection told at once, where the system can.
func (s *session) watch(c *sessionConn) {
	s.life.Go(func() {
		for awaitData(c.net) {
			c.statement.Lock() // whoever has a statement under way reads the answer
			unasked := hasData(c.net)
			c.statement.Unlock()
			if unasked {
				s.condemn(c)
				return
			}
		}
	})
}
