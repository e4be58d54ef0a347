package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
)

// The first answer of another cluster ends after the row of one claim, so no caller has learned that the claim is lost. The
// next renewals report it, although that cluster has a copy of the claim.
func TestOtherClusterIsHeardInVain(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://postgres@" + server.Addr + "/postgres?pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	var torn atomic.Pointer[string]
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &tearing{Conn: conn, torn: &torn}, err
	}
	d, err := New(timely(t), connectTo(t, config), &Options{Schema: schema()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	d.failover.alert(func(...string) {}) // in place of the driver, which would listen and learn of it first
	a := claim("name", "a")
	enter(t, d, a)
	id, err := d.serverID(timely(t), d.link.Pool())
	if err != nil {
		t.Fatal(err)
	}
	d.failover.begin("00000001 1") // so the server is another than the claim's
	torn.Store(&id)
	if err := renew(t, d, a); !driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Fatalf("renewal whose answer breaks off = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
	}
	for range 2 { // the second has no break watch of the claim
		err := renew(t, d, a)
		if !errors.Is(err, driver.ErrGone) {
			t.Fatalf("renewal of a copy = %v; want ErrGone", err)
		}
		says(t, err, "another cluster of PostgreSQL answers than before (system ")
	}
}

// A tearing connection ends once, after the first row that contains a text.
type tearing struct {
	net.Conn
	torn *atomic.Pointer[string] // nil: it does not end
}

func (c *tearing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	text := c.torn.Load()
	if err != nil || text == nil {
		return n, err
	}
	const head = 5 // a letter and the length of the rest
	for at := 0; at+head <= n; {
		next := at + 1 + int(binary.BigEndian.Uint32(p[at+1:]))
		if next > n {
			break
		}
		if p[at] == 'D' && bytes.Contains(p[at:next], []byte(*text)) {
			c.torn.Store(nil)
			return next, c.Conn.Close()
		}
		at = next
	}
	return n, nil
}
