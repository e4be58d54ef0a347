package mysql

import (
	"context"
	"crypto/rand"
	sqldriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A connection that holds is given up while the server cannot be reached, and does not hear of that. Once the server can be reached
// again, it is asked to end it, and so the lock is free long before the server would find out itself.
func TestSessionIsEndedLater(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	d, other := openSessionAt(t, sessionAt(proxy.Addr, "session_timeout=10m")), openSessionAt(t, sessionAt(server.Addr))
	away := &away{Connector: d.connector}
	d.connector = away
	a, conn := holding(t, d)
	proxy.Hold(0) // what is held never arrives, nor does the end of its connection
	proxy.Pass()
	away.times.Store(2)
	d.condemn(conn) // as a heartbeat without an answer does
	servertest.Until(t, "somebody else holds", func() bool {
		try := claim(a.Name, rand.Text())
		try.Try = true
		p, err := other.Enter(timely(t), try)
		return err == nil && p.Holds
	})
}

// holding returns a claim that holds in a session, and the connection that has its lock.
func holding(t *testing.T, d *session) (*driver.Claim, *sessionConn) {
	t.Helper()
	c := claim(rand.Text(), rand.Text())
	mustEnter(t, d, c, true)
	own, err := d.claims.find(c.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, conn := d.claims.of(own)
	return c, conn
}

// An away server cannot be reached for some times.
type away struct {
	sqldriver.Connector
	times atomic.Int32
}

func (a *away) Connect(ctx context.Context) (sqldriver.Conn, error) {
	if a.times.Add(-1) >= 0 {
		return nil, errors.New("the server is away")
	}
	return a.Connector.Connect(ctx)
}
