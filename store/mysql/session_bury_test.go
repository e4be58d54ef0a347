package mysql

import (
	"context"
	"crypto/rand"
	sqldriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The client gives up a connection with a lock while the server is out of reach and does not notice. When the client reaches
// the server again, it ends the connection there, so the lock is free long before the server would notice itself.
func TestSessionIsEndedLater(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	other := openSessionAt(t, sessionAt(server.Addr))
	locks := locksAt(t, sessionAt(proxy.Addr, "session_timeout=10m"))
	away := &away{Connector: locks.connector}
	locks.connector = away
	d, err := locks.open(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	a := claim(rand.Text(), rand.Text())
	mustEnter(t, d, a, true)
	proxy.Hold(0) // held messages never arrive, nor does the end of their connection
	proxy.Pass()
	away.times.Store(2)
	if err := renewed(t, d, a); err == nil {
		t.Fatal("a renewal that cannot arrive is answered")
	}
	servertest.Until(t, "somebody else holds", func() bool {
		try := claim(a.Name, rand.Text())
		try.Try = true
		p, err := other.Enter(timely(t), try)
		return err == nil && p.Holds
	})
}

// renewed is renew with enough time for an unanswered renewal.
func renewed(t *testing.T, d driver.Driver, c *driver.Claim) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return d.Renew(ctx, []*driver.Claim{c})[0].Err
}

// An away server refuses a number of connections.
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
