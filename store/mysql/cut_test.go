package mysql

import (
	"context"
	"database/sql"
	"net"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/stilelock/stile/driver"
)

// A broken wire is a connection whose writes fail.
type brokenWire struct{ net.Conn }

func (brokenWire) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A connection that is lost while it is made says nothing about the lock: the client connects again.
func TestLostWhileConnecting(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN("root@tcp(" + server.Addr + ")/" + database(t, server))
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &mysql.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return brokenWire{conn}, err
	}
	plain, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(plain)
	defer db.Close()
	s := &store{db: db, ctx: t.Context(), addr: server.Addr}
	if conn, err := s.acquire(timely(t)); err == nil {
		conn.Close()
		t.Error("a connection was made although nothing can be written")
	} else if driver.OutcomeOf(err) != driver.OutcomeUnsent || !driver.IsUnreachable(err) {
		t.Errorf("the error is %v (%v); want it unsent, since the server could not be reached", err, driver.OutcomeOf(err))
	}
}
