package advisory

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// Readers of two clients share, a writer excludes all, and the last reader of a client unlocks.
func TestShared(t *testing.T) {
	t.Parallel()
	one, two := client(t, at(home)), client(t, at(home))
	a, b, c := claim("shared", "a"), claim("shared", "b"), claim("shared", "c")
	a.Weight, b.Weight, c.Weight = 1, 1, 1
	writer, local := claim("shared", "writer"), claim("shared", "local")
	writer.Try, local.Try = true, true
	enter(t, one, a, true)
	enter(t, one, b, true)
	enter(t, two, c, true)
	enter(t, one, local, false)
	leave(t, two, c)
	enter(t, two, writer, false)
	leave(t, one, a)
	enter(t, two, writer, false)
	leave(t, one, b)
	enter(t, two, writer, true)
	a = claim("shared", "again")
	a.Weight, a.Try = 1, true
	enter(t, one, a, false)
	enter(t, two, a, false)
}

// Two names with one key exclude each other, within a session and between sessions, and are otherwise two claims.
func TestKeysCollide(t *testing.T) {
	t.Parallel()
	one, two := oneKey(t, 42), oneKey(t, 42)
	a, b, c := claim("name a", "a"), claim("name b", "b"), claim("name c", "c")
	enter(t, one, a, true)
	enter(t, one, b, false)
	enter(t, two, c, false)
	if err := renew(t, one, a); err != nil {
		t.Errorf("renewal of the one that holds: %v", err)
	}
	leave(t, two, c)
	leave(t, one, a)
	if p, err := one.Await(timely(t), b); err != nil || !p.Holds {
		t.Errorf("await = %+v, %v; want that it holds", p, err)
	}
	c = claim("name c", "later")
	c.Try = true
	enter(t, two, c, false)
}

// seldom allows a session to be silent for minutes.
const seldom = "session_timeout=30m"

// renewing returns a client with rare renewals. Neither a renewal nor a keepalive reports a loss within the time for which a
// test waits.
func renewing(t *testing.T, d driver.Driver) *stile.Client {
	t.Helper()
	client, err := stile.New(d, &stile.Options{LockOptions: stile.LockOptions{TTL: 30 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// An administrator ends the connection. Its holders' leases are lost at once; its waiters go on waiting.
func TestKilled(t *testing.T) {
	t.Parallel()
	one, two := client(t, at(home, "application_name=pinned", seldom)), client(t, at(home))
	client := renewing(t, one)
	lease, err := client.Mutex("killed/holds").Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	other := claim("killed/waits", "other")
	enter(t, two, other, true)
	waited := make(chan error, 1)
	ctx := timely(t)
	go func() {
		lease, err := client.Mutex("killed/waits").Lock(ctx)
		if err == nil {
			err = lease.Unlock()
		}
		waited <- err
	}()
	servertest.Until(t, "the lock is waited for", func() bool { return inServer(t, "pinned") == 1 })
	if n := kill(t, "pinned"); n != 2 {
		t.Fatalf("%d connections were ended; want that of the locks and the scout's", n)
	}
	servertest.Until(t, "the lease is lost", func() bool { return lease.Check() != nil })
	if err := lease.Check(); !errors.Is(err, stile.ErrLost) {
		t.Errorf("check = %v; want ErrLost", err)
	}
	enter(t, two, claim("killed/holds", "next"), true)
	leave(t, two, other)
	if err := <-waited; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

// A restart frees all locks, and the client goes on with a new session.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t)
	d := client(t, at(s))
	a := claim("name", "a")
	enter(t, d, a, true)
	servertest.KillPostgres(s)
	servertest.Until(t, "the holder is told", func() bool { return errors.Is(renew(t, d, a), driver.ErrSession) })
	_, err := d.Enter(timely(t), claim("name", "b"))
	says(t, err, "cannot connect to postgres at "+s.Addr)
	marks(t, err, true, true)
	s.Restart()
	if _, err := d.Enter(timely(t), a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("enter of the claim that is gone = %v; want ErrSession", err)
	}
	enter(t, d, claim("name", "c"), true)
}

// A pooler is refused only if it shares connections between transactions.
func TestPoolers(t *testing.T) {
	t.Parallel()
	_, err := openURL(timely(t), at(servertest.PgBouncer(t, home, "transaction")))
	says(t, err, "pooler", "mode=session")
	marks(t, err, true, false)
	d := client(t, at(servertest.PgBouncer(t, home, "session")))
	enter(t, d, claim("pooler", "a"), true)
}

// The error says at once that a server has no connection left.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t, "fsync = off", "max_connections = 4", "superuser_reserved_connections = 0")
	servertest.Until(t, "no connection is left", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := openURL(ctx, at(s))
		if err == nil {
			t.Cleanup(func() { d.Close() })
			return false
		}
		says(t, err, "postgres has no connection left")
		marks(t, err, true, true)
		return true
	})
}

// The server ends the session of a silent client, and others get its locks.
func TestFrozen(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, home.Addr)
	const timeout = 5 * time.Second
	d := client(t, at(&servertest.Server{Addr: p.Addr}, "session_timeout="+timeout.String()))
	other := client(t, at(home))
	a, b := claim("frozen", "a"), claim("frozen", "b")
	if p := enter(t, d, a, true); p.TTL > timeout {
		t.Errorf("the lease is %v; want no more than the session's timeout", p.TTL)
	}
	enter(t, other, b, false)
	start := time.Now()
	renewed := d.Renew(timely(t), []*driver.Claim{a})[0]
	if renewed.Err != nil || renewed.TTL < timeout/2 {
		t.Fatalf("renewal = %+v; want at least half of the session's timeout", renewed)
	}
	p.Freeze(true, true)
	if p, err := other.Await(timely(t), b); err != nil || !p.Holds {
		t.Errorf("await = %+v, %v; want that it holds", p, err)
	}
	if took := time.Since(start); took < renewed.TTL {
		t.Errorf("the lock was free after %v, within the lease of %v", took, renewed.TTL)
	}
	if err := renew(t, d, a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("renewal of what is lost = %v; want ErrSession", err)
	}
}

// An idle client with locks still learns of the end of its connection.
func TestKilledWhileIdle(t *testing.T) {
	t.Parallel()
	client := renewing(t, client(t, at(home, "application_name=idle", seldom)))
	lease, err := client.Mutex("killed/idle").Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := kill(t, "idle"); n != 1 {
		t.Errorf("%d connections were ended; want 1", n)
	}
	servertest.Until(t, "the lease is lost", func() bool { return lease.Check() != nil })
}

// A live client keeps its session as long as its claims last.
func TestOutlastsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Second // signs of life come every third of it
	d, other := client(t, at(home, "session_timeout="+timeout.String())), client(t, at(home))
	a, try := claim("outlasts", "a"), claim("outlasts", "try")
	try.Try = true
	enter(t, d, a, true)
	start := time.Now()
	servertest.Until(t, "the timeout is over", func() bool {
		enter(t, other, try, false)
		return time.Since(start) > 3*timeout/2
	})
	if err := renew(t, d, a); err != nil {
		t.Errorf("renewal after the timeout = %v; want nil", err)
	}
}

// A claim that holds at once has a holder's lease, whatever its Wait was.
func TestLeaseOfNewHolder(t *testing.T) {
	t.Parallel()
	d := client(t, at(home))
	c := claim("lease", "a")
	c.TTL, c.Wait = 5*time.Second, time.Minute
	if p := enter(t, d, c, true); p.TTL > c.TTL {
		t.Errorf("the lease is %v; want no more than %v", p.TTL, c.TTL)
	}
}

// The connection breaks while a lost session is made again. The request that needs it was not sent.
func TestBeginsAnewInVain(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(at(home, "application_name=begins-anew"))
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &breaking{c, &broken}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l := link.New(pool)
	t.Cleanup(l.Close)
	v := &server{link: l, timeout: time.Minute, key: Key}
	connect := func() error {
		c, err := v.Connect(t.Context())
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	err = connect()
	if err == nil || driver.OutcomeOf(err) != driver.OutcomeUnsent || !driver.IsUnreachable(err) {
		t.Errorf("a connection that begins in vain: %v, %v; want that it is unsent", err, driver.OutcomeOf(err))
	}
	broken.Store(false)
	if err := connect(); err != nil {
		t.Error(err)
	}
}

// A breaking connection ends at its first write, if it is broken.
type breaking struct {
	net.Conn
	broken *atomic.Bool
}

func (c *breaking) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.broken.Load() && bytes.Contains(p, []byte("pg_backend_pid(), ")) {
		c.Close()
	}
	return n, err
}
