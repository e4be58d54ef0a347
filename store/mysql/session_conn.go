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
	"strings"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/session"
)

// A userConn is one connection with its user-level locks.
//
// It holds a lock of its own, its tag, whose name nobody else knows. By the tag, the server can say whether the connection
// still exists, whatever its number.
type userConn struct {
	s   *userLocks
	raw sqldriver.Conn
	net net.Conn // below raw
	tag string
	id  int64 // the server's number of it

	ended     chan struct{} // closed when the server has ended the connection
	statement sync.Mutex    // held while the connection is used
}

var (
	errMoved = errors.New("the lock's connection leads to another one of the server than before, as through a proxy " +
		"that shares connections")
	errNumbers = errors.New("the server answered with something else than numbers")
	errUntold  = errors.New("the server could not tell whether the lock is free (GET_LOCK is NULL)")
	errShared  = errors.New("a proxy shares the server's connections between its clients, where user-level locks go astray: " +
		"use the server's own address, or leave out mode=session")
)

// A dialled receives the network connection from the dialler.
type dialled struct{}

// acceptsWrites is 1 unless the server is read-only, like a replica. A replica has user-level locks of its own, and does not
// know the primary's. In newer versions of MariaDB the variable is a word, otherwise a number.
const acceptsWrites = "CONCAT(@@GLOBAL.read_only) IN ('0', 'OFF')"

// Connect makes a connection. Its errors say that the request for which it is made was not sent.
func (s *userLocks) Connect(ctx context.Context) (session.Conn, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *userLocks) connect(ctx context.Context) (*userConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	c := &userConn{s: s, tag: "stile-conn-" + rand.Text(), ended: make(chan struct{})}
	raw, err := s.connector.Connect(context.WithValue(ctx, dialled{}, &c.net))
	if err != nil {
		return nil, driver.NotYet(s.says.explain(ctx, err))
	}
	c.raw = raw
	set := fmt.Sprintf("SET SESSION wait_timeout = %d", int(math.Ceil(s.timeout.Seconds())))
	if _, err = raw.(sqldriver.ExecerContext).ExecContext(ctx, set, nil); err == nil {
		var got []int64
		got, err = numbersOf(ctx, raw, "SELECT GET_LOCK('"+c.tag+"', 0), "+acceptsWrites+", CONNECTION_ID()")
		switch {
		case err != nil:
		case got[1] != 1:
			raw.Close()
			return nil, driver.Refused(driver.Unreachable(errReadOnly))
		case got[0] == 1:
			c.id = got[2]
			c.watch()
			return c, nil
		}
	}
	raw.Close()
	if err == nil {
		err = driver.Refused(errors.New("the server does not give a user-level lock that nobody has (GET_LOCK)"))
	}
	return nil, driver.NotYet(s.says.explain(ctx, err))
}

// examine finds a proxy that shares the server's connections: while another connection is in a transaction, this one must
// keep its connection to the server, and the other must not use it. It returns the examined connection.
func (s *userLocks) examine(ctx context.Context) (session.Conn, error) {
	one, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	two, err := s.connect(ctx)
	if err != nil {
		one.Close()
		return nil, err
	}
	defer two.Close()
	for _, text := range []string{"START TRANSACTION", "ROLLBACK", "START TRANSACTION", "ROLLBACK"} {
		_, err := two.raw.(sqldriver.ExecerContext).ExecContext(ctx, text, nil)
		for _, c := range []*userConn{two, one} {
			if err == nil {
				_, _, err = c.Do(ctx, nil)
			}
		}
		if errors.Is(err, errMoved) || err == nil && one.id == two.id {
			err = driver.Refused(errShared)
		}
		if err != nil {
			one.Close()
			return nil, s.says.explain(ctx, err)
		}
	}
	return one, nil
}

// mostSteps is how many steps fit into a statement: MySQL limits its columns.
const mostSteps = 1000

// Do locks some locks if they are free, and frees others.
func (c *userConn) Do(ctx context.Context, steps []session.Step) (done []bool, alive bool, err error) {
	c.statement.Lock()
	defer c.statement.Unlock()
	for first := true; first || len(steps) > 0; first = false {
		n := min(len(steps), mostSteps)
		var text strings.Builder
		fmt.Fprintf(&text, "SELECT CONNECTION_ID(), IS_USED_LOCK('%s')", c.tag)
		for _, d := range steps[:n] {
			if d.Free {
				fmt.Fprintf(&text, ", RELEASE_LOCK('%s')", d.Key)
			} else {
				fmt.Fprintf(&text, ", GET_LOCK('%s', 0)", d.Key)
			}
		}
		got, err := numbersOf(ctx, c.raw, text.String())
		if err != nil {
			explained := c.s.says.explain(c.s.life.Context(), err)
			if errors.Is(err, sqldriver.ErrBadConn) && done == nil {
				explained = driver.NotYet(explained) // it was not written
			}
			return nil, number(err) != 0 && !faultOf(err).drop, explained
		}
		if got[0] != c.id || got[1] != c.id {
			return nil, false, driver.Unreachable(errMoved)
		}
		for i, d := range steps[:n] {
			if !d.Free && got[2+i] == unowned {
				return nil, true, errUntold
			}
			done = append(done, got[2+i] == 1)
		}
		steps = steps[n:]
	}
	return done, true, nil
}

// unowned stands for NULL, such as the answer of IS_USED_LOCK if no connection has the lock.
const unowned = math.MinInt64

// Wait waits in the server for a second, in a statement that frees the locks that it got. If ctx ends, Wait ends the
// statement.
func (c *userConn) Wait(ctx context.Context, key string, _ bool) error {
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		life, cancel := context.WithTimeout(c.s.life.Context(), connectWithin)
		defer cancel()
		if raw, err := c.s.connector.Connect(life); err == nil {
			defer raw.Close()
			// If this fails, the statement ends by itself.
			_, _ = raw.(sqldriver.ExecerContext).ExecContext(life, fmt.Sprintf("KILL QUERY %d", c.id), nil)
		}
	})
	defer func() {
		if !stop() {
			<-killed
		}
	}()
	c.statement.Lock()
	defer c.statement.Unlock()
	life, cancel := context.WithTimeout(c.s.life.Context(), patience)
	defer cancel()
	_, err := numbersOf(life, c.raw, "SELECT IF(GET_LOCK('"+key+"', 1) = 1, RELEASE_LOCK('"+key+"'), 0)")
	return err
}

// Rest returns a channel that is closed when the connection has ended.
func (c *userConn) Rest() <-chan struct{} { return c.ended }

// Close ends the connection on this side, even during a statement.
func (c *userConn) Close() {
	_ = c.net.Close()
	c.statement.Lock()
	defer c.statement.Unlock()
	c.raw.Close()
}

// watch starts to watch for the end of a connection, if the system allows it.
func (c *userConn) watch() {
	c.s.life.Go(func() {
		for awaitData(c.net) {
			c.statement.Lock() // the goroutine with a statement under way reads the answer
			unasked := hasData(c.net)
			c.statement.Unlock()
			if unasked {
				close(c.ended)
				return
			}
		}
	})
}

// numbersOf runs a statement with one row of numbers. NULL becomes a number below all others.
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
			numbers[i] = unowned
		case int64:
			numbers[i] = v
		case uint64: // MySQL's answer to CONNECTION_ID
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

// Gone ends the remains of a connection in the server, and reports whether none are left.
func (s *userLocks) Gone(ctx context.Context, of session.Conn) bool {
	tag := of.(*userConn).tag
	raw, err := s.connector.Connect(ctx)
	if err != nil {
		return false
	}
	defer raw.Close()
	got, err := numbersOf(ctx, raw, "SELECT IS_USED_LOCK('"+tag+"'), "+acceptsWrites)
	switch {
	case err != nil || got[1] != 1:
		return false
	case got[0] == unowned:
		return true
	}
	// If the connection is gone by now, KILL returns an error. The number cannot belong to another connection, since the
	// same statement looks up the tag's lock.
	_, _ = raw.(sqldriver.ExecerContext).ExecContext(ctx, "KILL IS_USED_LOCK('"+tag+"')", nil)
	return false
}
