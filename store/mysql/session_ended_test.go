package mysql

import (
	"context"
	"crypto/rand"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
)

// A connection ends after it has got a lock, and before the claim holds. The claim does not hold there: it waits on, and gets the lock
// on another connection.
func TestSessionHoldsOnNoEndedConnection(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	ends := endNext(d)
	mustEnter(t, d, claim(rand.Text(), rand.Text()), true) // so that a claim that waits has a connection of its own
	for name, get := range map[string]func(c *driver.Claim) bool{
		"it was tried": func(c *driver.Claim) bool {
			return d.tryAgain(addWaiter(t, d, c))
		},
		"it waited there": func(c *driver.Claim) bool {
			own := addWaiter(t, d, c)
			conn, err := d.takeAlone(timely(t), own)
			if err != nil || conn == nil {
				t.Fatalf("takes connection %v, %v", conn, err)
			}
			return d.waitOn(own, conn)
		},
	} {
		c := claim(rand.Text(), rand.Text())
		ends.lock.Store(&c.Name)
		if get(c) {
			t.Errorf("%s: the claim holds on a connection that has ended", name)
		}
		own, err := d.claims.find(c.ID)
		if err != nil {
			t.Fatalf("%s: the claim that is to wait on: %v", name, err)
		}
		d.life.Go(func() { d.wait(own) })
		if p, err := d.Await(timely(t), c); err != nil || !p.Holds {
			t.Errorf("%s: await = %+v, %v; want that it holds", name, p, err)
		}
		if err := renew(t, d, c); err != nil {
			t.Errorf("%s: renewal = %v; want nil", name, err)
		}
	}
}

// A connection ends after it has got a lock that was only to be tried for. The claim has not entered, and nothing is left of it.
func TestSessionTriesOnEndedConnection(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	c := claim(rand.Text(), rand.Text())
	c.Try = true
	endNext(d).lock.Store(&c.Name)
	p, err := d.Enter(timely(t), c)
	if p.Holds || !driver.NotApplied(err) || !driver.IsUnreachable(err) {
		t.Errorf("enter = %+v, %v; want an error of a claim that has not entered", p, err)
	}
	if _, err := d.claims.find(c.ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the claim that was tried: %v; want that it is gone", err)
	}
}

// An ending connector has a connection of a session end in the moment in which it has got a lock.
type ending struct {
	sqldriver.Connector
	d    *session
	lock atomic.Pointer[string] // the next of these
}

// endNext gives a session an ending connector, and ends the connections that it has so far.
func endNext(d *session) *ending {
	e := &ending{Connector: d.connector, d: d}
	d.mu.Lock()
	conns := slices.Clone(d.conns)
	d.connector = e
	d.mu.Unlock()
	for _, c := range conns {
		d.condemn(c)
	}
	return e
}

func (e *ending) Connect(ctx context.Context) (sqldriver.Conn, error) {
	raw, err := e.Connector.Connect(ctx)
	return &endingConn{raw, e}, err
}

type endingConn struct {
	sqldriver.Conn
	of *ending
}

func (c *endingConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *endingConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	rows, err := c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, query, args)
	lock := c.of.lock.Load()
	if err != nil || lock == nil || !strings.Contains(query, "GET_LOCK('"+*lock+"'") || !c.of.lock.CompareAndSwap(lock, nil) {
		return rows, err
	}
	return &endingRows{rows, c}, nil
}

// endingRows are the answer after which the connection ends.
type endingRows struct {
	sqldriver.Rows
	on *endingConn
}

func (r *endingRows) Next(values []sqldriver.Value) error {
	err := r.Rows.Next(values)
	if errors.Is(err, io.EOF) {
		d := r.on.of.d
		d.mu.Lock()
		i := slices.IndexFunc(d.conns, func(c *sessionConn) bool { return c.raw == r.on })
		conn := d.conns[i]
		d.mu.Unlock()
		d.condemn(conn)
	}
	return err
}
