package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// sessions returns the URL of a server's advisory locks.
func sessions(s *servertest.Server, params ...string) string {
	return "postgres://postgres@" + s.Addr + "/postgres?" + strings.Join(append(params, "mode=session"), "&")
}

// openSessions opens a client of the advisory locks at a URL.
func openSessions(t testing.TB, url string) *session {
	t.Helper()
	s := opener(url)(t).(*session)
	t.Cleanup(func() { s.Close() })
	return s
}

// sessionEnter enters a claim that must hold, or must not.
func sessionEnter(t testing.TB, d driver.Driver, c *driver.Claim, holds bool) driver.Place {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if err != nil || p.Holds != holds {
		t.Fatalf("enter = %+v, %v; want holds %v", p, err, holds)
	}
	c.Ticket = p.Ticket
	return p
}

func TestSessionContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener(sessions(server)), Lease: 600 * time.Millisecond})
}

// Readers of two clients share, a writer excludes all, and the last reader of a client unlocks.
func TestSessionShared(t *testing.T) {
	t.Parallel()
	one, two := openSessions(t, sessions(server)), openSessions(t, sessions(server))
	a, b, c := claim("shared", "a"), claim("shared", "b"), claim("shared", "c")
	a.Weight, b.Weight, c.Weight = 1, 1, 1
	writer, local := claim("shared", "writer"), claim("shared", "local")
	writer.Try, local.Try = true, true
	sessionEnter(t, one, a, true)
	sessionEnter(t, one, b, true)
	sessionEnter(t, two, c, true)
	sessionEnter(t, one, local, false)
	leave(t, two, c)
	sessionEnter(t, two, writer, false)
	leave(t, one, a)
	sessionEnter(t, two, writer, false)
	leave(t, one, b)
	sessionEnter(t, two, writer, true)
	a = claim("shared", "again")
	a.Weight, a.Try = 1, true
	sessionEnter(t, one, a, false)
	sessionEnter(t, two, a, false)
}

// Two names with one key keep each other out, within a session and between sessions, and are otherwise two claims.
func TestSessionKeysCollide(t *testing.T) {
	t.Parallel()
	one, two := openSessions(t, sessions(server)), openSessions(t, sessions(server))
	one.key = func(string) int64 { return 42 }
	two.key = one.key
	a, b, c := claim("name a", "a"), claim("name b", "b"), claim("name c", "c")
	sessionEnter(t, one, a, true)
	sessionEnter(t, one, b, false)
	sessionEnter(t, two, c, false)
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
	sessionEnter(t, two, c, false)
}

// An administrator ends the connection: what it held is lost at once, what it waited for is not.
func TestSessionKilled(t *testing.T) {
	t.Parallel()
	one, two := openSessions(t, sessions(server, "application_name=pinned")), openSessions(t, sessions(server))
	client, err := stile.New(one, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	lease, err := client.Mutex("killed/holds").Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	other := claim("killed/waits", "other")
	sessionEnter(t, two, other, true)
	waited := make(chan error, 1)
	ctx := timely(t)
	go func() {
		lease, err := client.Mutex("killed/waits").Lock(ctx)
		if err == nil {
			err = lease.Unlock()
		}
		waited <- err
	}()
	servertest.Until(t, "the lock is waited for", func() bool {
		n := 0
		_ = one.order(ctx, func() { n = len(one.line) })
		return n == 1
	})
	var n int
	start := time.Now()
	scan(t, connect(t, server), &n, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pinned'")
	if n != 1 {
		t.Fatalf("%d connections were ended; want 1", n)
	}
	servertest.Until(t, "the lease is lost", func() bool { return lease.Check() != nil })
	if late := time.Since(start); late > 2*time.Second {
		t.Errorf("the lease was lost after %v; want at once", late)
	}
	if err := lease.Check(); !errors.Is(err, stile.ErrLost) {
		t.Errorf("check = %v; want ErrLost", err)
	}
	sessionEnter(t, two, claim("killed/holds", "next"), true)
	leave(t, two, other)
	if err := <-waited; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

// A restart frees everything; the client goes on with a new session.
func TestSessionServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t)
	d := openSessions(t, sessions(s))
	a := claim("name", "a")
	sessionEnter(t, d, a, true)
	servertest.KillPostgres(s)
	servertest.Until(t, "the holder is told", func() bool { return errors.Is(renew(t, d, a), driver.ErrSession) })
	_, err := d.Enter(timely(t), claim("name", "b"))
	says(t, err, "cannot connect to postgres at "+s.Addr)
	marks(t, err, true, true)
	s.Restart()
	if _, err := d.Enter(timely(t), a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("enter of the claim that is gone = %v; want ErrSession", err)
	}
	sessionEnter(t, d, claim("name", "c"), true)
}

// A pooler is refused if it shares connections between transactions, and only then.
func TestSessionPoolers(t *testing.T) {
	t.Parallel()
	_, err := driver.Open(timely(t), sessions(servertest.PgBouncer(t, server, "transaction")))
	says(t, err, "pooler", "mode=session")
	marks(t, err, true, false)
	d := openSessions(t, sessions(servertest.PgBouncer(t, server, "session")))
	sessionEnter(t, d, claim("pooler", "a"), true)
}

// A server that has no connection left says so at once.
func TestSessionNoConnectionLeft(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t, "fsync = off", "max_connections = 4", "superuser_reserved_connections = 0")
	servertest.Until(t, "no connection is left", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		d, err := driver.Open(ctx, sessions(s))
		if err == nil {
			t.Cleanup(func() { d.Close() })
			return false
		}
		says(t, err, "postgres has no connection left")
		marks(t, err, true, true)
		return true
	})
}

// The server ends the session of a client that it does not hear, and others have its locks.
func TestSessionFrozen(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, server.Addr)
	d := openSessions(t, "postgres://postgres@"+p.Addr+"/postgres?mode=session&session_timeout=2s")
	other := openSessions(t, sessions(server))
	a, b := claim("frozen", "a"), claim("frozen", "b")
	if p := sessionEnter(t, d, a, true); p.TTL > 2*time.Second {
		t.Errorf("the lease is %v; want no more than the session's timeout", p.TTL)
	}
	sessionEnter(t, other, b, false)
	p.Freeze(true, true)
	start := time.Now()
	if p, err := other.Await(timely(t), b); err != nil || !p.Holds {
		t.Errorf("await = %+v, %v; want that it holds", p, err)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("the lock was free after %v, within the lease", took)
	}
	if err := renew(t, d, a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("renewal of what is lost = %v; want ErrSession", err)
	}
}

// A client that only holds, and has nothing to say, learns of the end of its connection all the same.
func TestSessionKilledWhileIdle(t *testing.T) {
	t.Parallel()
	client, err := stile.New(openSessions(t, sessions(server, "application_name=idle")), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	lease, err := client.Mutex("killed/idle").Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, server)
	var n int
	start := time.Now()
	scan(t, admin, &n, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'idle'")
	servertest.Until(t, "the lease is lost", func() bool { return lease.Check() != nil })
	if late := time.Since(start); n != 1 || late > 2*time.Second {
		t.Errorf("%d connections were ended, and the lease was lost after %v; want 1, and at once", n, late)
	}
}

// A client that lives keeps its session for as long as its claims last, without being asked to.
func TestSessionOutlastsTimeout(t *testing.T) {
	t.Parallel()
	d, other := openSessions(t, sessions(server, "session_timeout=2s")), openSessions(t, sessions(server))
	a, try := claim("outlasts", "a"), claim("outlasts", "try")
	try.Try = true
	sessionEnter(t, d, a, true)
	start := time.Now()
	servertest.Until(t, "the timeout is over", func() bool {
		sessionEnter(t, other, try, false)
		return time.Since(start) > 3*time.Second
	})
	if err := renew(t, d, a); err != nil {
		t.Errorf("renewal after the timeout = %v; want nil", err)
	}
}

// An answer by another backend ends the session, since the locks are not there.
func TestSessionMoved(t *testing.T) {
	t.Parallel()
	d := openSessions(t, sessions(server))
	a := claim("moved", "a")
	sessionEnter(t, d, a, true)
	if err := d.order(timely(t), func() { d.pid++ }); err != nil {
		t.Fatal(err)
	}
	if err := renew(t, d, a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("renewal = %v; want ErrSession", err)
	}
	sessionEnter(t, d, claim("moved", "b"), true)
}
