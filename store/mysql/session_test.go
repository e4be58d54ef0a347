package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"github.com/stilelock/stile/internal/awake"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// sessionAt returns the URL of the user-level locks of a server.
func sessionAt(addr string, params ...string) string {
	return "mysql://root@" + addr + "/mysql?mode=session&" + strings.Join(params, "&")
}

func openSessionAt(t testing.TB, url string) *session {
	t.Helper()
	d, err := driver.Open(timely(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*session)
}

// mustEnter enters a claim that must hold, or must not.
func mustEnter(t testing.TB, d driver.Driver, c *driver.Claim, holds bool) driver.Place {
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
	open := func(t testing.TB) driver.Driver { return openSessionAt(t, sessionAt(server.Addr)) }
	drive.Lacks(t, open, driver.TraitOrder, driver.TraitReaders, driver.TraitPermits, driver.TraitFencing, driver.TraitLockDelay, driver.TraitAmend)
	oneCase := !maria(t, raw(t, server, ""))
	drivertest.Run(t, drivertest.Store{Open: open, Lease: 600 * time.Millisecond, OneCase: oneCase})
}

// Each state is drawn, can be come to from the first, and all but the last can be left.
func TestSessionMoves(t *testing.T) {
	reached := []claimState{claimWaiting}
	for i := 0; i < len(reached); i++ {
		for next := claimWaiting; next <= claimOver; next++ {
			cs := &sessionClaims{byID: map[string]*sessionClaim{}}
			c := &sessionClaim{id: "a", state: reached[i], changed: make(chan struct{}, 1), kick: make(chan struct{}, 1),
				settled: make(chan struct{}), over: make(chan struct{})}
			cs.byID["a"] = c
			drawn := slices.Contains(claimMoves[reached[i]], next)
			if got := cs.move(c, next); got != drawn || drawn && c.state != next || !drawn && c.state != reached[i] {
				t.Errorf("from %d to %d: moved %v, to %d; want %v", reached[i], next, got, c.state, drawn)
			}
			if here := cs.byID["a"] != nil; drawn && here != (c.state != claimOver) {
				t.Errorf("in state %d the claim is known: %v", c.state, here)
			}
			if drawn && !slices.Contains(reached, next) {
				reached = append(reached, next)
			}
		}
	}
	if len(reached) != int(claimOver)+1 {
		t.Errorf("only %v can be come to", reached)
	}
	conns := []connState{connOpen}
	for i := 0; i < len(conns); i++ {
		for next := connOpen; next <= connGone; next++ {
			c := &sessionConn{state: conns[i]}
			drawn := slices.Contains(connMoves[conns[i]], next)
			if got := c.turn(next); got != drawn || drawn && c.state != next {
				t.Errorf("a connection from %d to %d: turned %v; want %v", conns[i], next, got, drawn)
			}
			if drawn && !slices.Contains(conns, next) {
				conns = append(conns, next)
			}
		}
	}
	if len(conns) != int(connGone)+1 {
		t.Errorf("a connection can only come to %v", conns)
	}
}

func TestLockNames(t *testing.T) {
	long := strings.Repeat("x", longestLock+1)
	for _, name := range []string{"a", "Orders/1", strings.Repeat("x", longestLock), "with space", "ü", "it's", `a\b`, " a", "stile-conn-x", "Stile-x", long, "a\x00"} {
		got := lockName(name)
		plain := slices.Contains([]string{"a", "Orders/1", strings.Repeat("x", longestLock), "with space"}, name)
		if (got == name) != plain || len(got) > longestLock || !plain && !strings.HasPrefix(got, "stile-") {
			t.Errorf("the lock of %q is %q; want the name itself: %v", name, got, plain)
		}
	}
	if lockName(long) == lockName(long+"x") {
		t.Error("two long names have one lock")
	}
}

// Who locks the same name by a bare GET_LOCK is kept out, and keeps out, names that are hashed included.
func TestSessionExcludesGetLock(t *testing.T) {
	t.Parallel()
	d, db := openSessionAt(t, sessionAt(server.Addr)), raw(t, server, "")
	conn, err := db.Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(what, lock string) int {
		t.Helper()
		var got sql.NullInt64
		if err := conn.QueryRowContext(timely(t), "SELECT "+what, lock).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return int(got.Int64)
	}
	for _, name := range []string{"plain/" + rand.Text(), "ü " + rand.Text(), strings.Repeat("long", 20) + rand.Text()} {
		a := claim(name, rand.Text())
		mustEnter(t, d, a, true)
		if got := ask("GET_LOCK(?, 0)", lockName(name)); got != 0 {
			t.Errorf("GET_LOCK of %q beside a holder = %d; want 0", name, got)
		}
		leave(t, d, a)
		if got := ask("GET_LOCK(?, 0)", lockName(name)); got != 1 {
			t.Errorf("GET_LOCK of %q after the holder = %d; want 1", name, got)
		}
		try := claim(name, rand.Text())
		try.Try = true
		mustEnter(t, d, try, false)
		b := claim(name, rand.Text())
		mustEnter(t, d, b, false)
		ask("RELEASE_LOCK(?)", lockName(name))
		if p, err := d.Await(timely(t), b); err != nil || !p.Holds {
			t.Errorf("await = %+v, %v; want that it holds", p, err)
		}
		leave(t, d, b)
	}
}

// holder returns the connection that has the lock of a claim.
func holder(t testing.TB, d *session, c *driver.Claim) *sessionConn {
	t.Helper()
	own, err := d.claims.find(c.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, conn := d.claims.of(own)
	return conn
}

// An administrator ends the connection of a lock: its holder is told at once, a waiter waits on.
func TestSessionKilled(t *testing.T) {
	t.Parallel()
	lane := awake.Lane(t)
	one, two, db := openSessionAt(t, sessionAt(server.Addr)), openSessionAt(t, sessionAt(server.Addr)), raw(t, server, "")
	lost := make(chan string, 9)
	one.Alert(func(ids ...string) {
		for _, id := range ids {
			lost <- id
		}
	})
	a, other, waits := claim("killed/a", rand.Text()), claim("killed/b", rand.Text()), claim("killed/b", rand.Text())
	mustEnter(t, one, a, true)
	mustEnter(t, two, other, true)
	mustEnter(t, one, waits, false)
	servertest.Until(t, "a connection waits", func() bool { return holder(t, one, waits) != nil })
	start := time.Now()
	for _, c := range []*driver.Claim{a, waits} {
		mustExec(t, db, "KILL IS_USED_LOCK('"+holder(t, one, c).tag+"')")
	}
	select {
	case id := <-lost:
		if id != a.ID {
			t.Errorf("%s was told to be lost; want %s", id, a.ID)
		}
	case <-awake.For(time.Minute):
		t.Error("nobody was told that the lock is lost")
	}
	lane.Within(time.Since(start), 5*time.Second, "word of the loss")
	if err := renew(t, one, a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("renewal = %v; want ErrSession", err)
	}
	if err := one.Leave(timely(t), &driver.Release{Claim: a}); !errors.Is(err, driver.ErrSession) {
		t.Errorf("leave = %v; want ErrSession", err)
	}
	mustEnterSoon(t, two, claim("killed/a", rand.Text())) // the server closes a connection before it gives back the locks of that
	leave(t, two, other)
	if p, err := one.Await(timely(t), waits); err != nil || !p.Holds {
		t.Errorf("await = %+v, %v; want that it holds", p, err)
	}
}

// The server is restarted: the claim is lost with its connection, and the next one holds.
func TestSessionServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	d := openSessionAt(t, sessionAt(s.Addr))
	a := claim("restarts", rand.Text())
	mustEnter(t, d, a, true)
	s.Kill()
	s.Restart()
	servertest.Until(t, "the claim is lost", func() bool { return errors.Is(renew(t, d, a), driver.ErrSession) })
	if err := d.Leave(timely(t), &driver.Release{Claim: a}); !errors.Is(err, driver.ErrSession) {
		t.Errorf("leave = %v; want ErrSession", err)
	}
	mustEnter(t, openSessionAt(t, sessionAt(s.Addr)), claim("restarts", rand.Text()), true)
}

// The answer to a release is lost. The claim is only said to have left once its connection is gone, and that is never used
// again.
func TestSessionReleaseAnswerLost(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	d, other := openSessionAt(t, sessionAt(proxy.Addr)), openSessionAt(t, sessionAt(server.Addr))
	a := claim(rand.Text(), rand.Text())
	mustEnter(t, d, a, true)
	conn := holder(t, d, a)
	proxy.Freeze(false, true)
	left := make(chan error, 1)
	ctx := timely(t)
	go func() { left <- d.Leave(ctx, &driver.Release{Claim: a}) }()
	b := claim(a.Name, rand.Text())
	mustEnterSoon(t, other, b)
	proxy.Cut()
	proxy.Mend()
	if err := <-left; err != nil && driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("leave = %v, %v; want nil, or an unknown outcome", err, driver.OutcomeOf(err))
	}
	servertest.Until(t, "the connection is gone", func() bool { return d.isGone(conn) })
	if err := renew(t, other, b); err != nil {
		t.Errorf("renewal of who holds now = %v", err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: a}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leave once more = %v; want ErrGone", err)
	}
}

// A claim is not said to be gone before that is proven: one that waits and whose connection hears nothing more, and one whose
// Enter got no answer.
func TestSessionGoneIsProven(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		t.Run(map[bool]string{true: "waits", false: "enters"}[waits], func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr)
			d, other := openSessionAt(t, sessionAt(proxy.Addr, "session_timeout=2s")), openSessionAt(t, sessionAt(server.Addr))
			a, b := claim("", rand.Text()), claim(rand.Text(), rand.Text())
			a.Name = b.Name
			warm := claim(rand.Text(), rand.Text()) // so that there is a connection
			mustEnter(t, d, warm, true)
			leave(t, d, warm)
			if waits {
				mustEnter(t, other, b, true)
				mustEnter(t, d, a, false)
				servertest.Until(t, "a connection waits", func() bool { return holder(t, d, a) != nil })
				proxy.Freeze(true, true)
			} else {
				proxy.Freeze(false, true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := d.Enter(ctx, a); driver.OutcomeOf(err) != driver.OutcomeUnknown {
					t.Fatalf("enter = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
				}
			}
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := d.Leave(ctx, &driver.Release{Claim: a})
				cancel()
				if driver.OutcomeOf(err) != driver.OutcomeUnknown || errors.Is(err, driver.ErrGone) {
					t.Errorf("leave = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
				}
			}
			proxy.Cut()
			proxy.Mend()
			servertest.Until(t, "the claim is proven to be gone", func() bool {
				err := d.Leave(t.Context(), &driver.Release{Claim: a})
				return err == nil || errors.Is(err, driver.ErrGone)
			})
			if waits {
				leave(t, other, b)
			}
			try := claim(a.Name, rand.Text())
			try.Try = true
			mustEnter(t, other, try, true)
		})
	}
}

// mustEnterSoon enters a claim that comes to hold.
func mustEnterSoon(t testing.TB, d *session, c *driver.Claim) {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if c.Ticket = p.Ticket; err == nil && !p.Holds {
		p, err = d.Await(timely(t), c)
	}
	if err != nil || !p.Holds {
		t.Fatalf("%+v, %v; want that it holds", p, err)
	}
}

// The server ends the connection of a client that it does not hear, and others have the lock, but not within the lease.
func TestSessionFrozen(t *testing.T) {
	t.Parallel()
	p := servertest.NewProxy(t, server.Addr)
	const timeout = 5 * time.Second
	d, other := openSessionAt(t, sessionAt(p.Addr, "session_timeout="+timeout.String())), openSessionAt(t, sessionAt(server.Addr))
	a, b := claim(rand.Text(), rand.Text()), claim("", rand.Text())
	b.Name = a.Name
	if p := mustEnter(t, d, a, true); p.TTL > timeout {
		t.Errorf("the lease is %v; want no more than session_timeout", p.TTL)
	}
	mustEnter(t, other, b, false)
	start := time.Now()
	renewed := d.Renew(timely(t), []*driver.Claim{a})[0]
	if renewed.Err != nil || renewed.TTL < timeout/2 {
		t.Fatalf("renewal = %+v; want at least half of session_timeout", renewed)
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

// A client that only holds is not taken for dead.
func TestSessionOutlastsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Second // a third of which is between two signs of life
	d, other := openSessionAt(t, sessionAt(server.Addr, "session_timeout="+timeout.String())), openSessionAt(t, sessionAt(server.Addr))
	a, try := claim(rand.Text(), rand.Text()), claim("", rand.Text())
	mustEnter(t, d, a, true)
	try.Name, try.Try = a.Name, true
	start := time.Now()
	servertest.Until(t, "the timeout is over", func() bool {
		mustEnter(t, other, try, false)
		return time.Since(start) > 3*timeout/2
	})
	if err := renew(t, d, a); err != nil {
		t.Errorf("renewal after the timeout = %v; want nil", err)
	}
}

// A proxy that shares the server's connections between its clients is refused.
func TestSessionBehindSharing(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	shares := &sharing{Connector: d.connector}
	d.connector = shares
	if err := d.examine(timely(t)); err != nil {
		t.Fatalf("connections that nobody shares: %v", err)
	}
	shares.on.Store(true)
	err := d.examine(timely(t))
	says(t, err, "proxy shares", "mode=session")
	marks(t, err, true, false)
}

// sharing hands out connections of which each statement goes to the next of two of the server's.
type sharing struct {
	sqldriver.Connector
	on atomic.Bool
	n  atomic.Int64
}

func (s *sharing) Connect(ctx context.Context) (sqldriver.Conn, error) {
	one, err := s.Connector.Connect(ctx)
	if err != nil || !s.on.Load() {
		return one, err
	}
	two, err := s.Connector.Connect(ctx)
	return &shared{one, two, s}, err
}

type shared struct {
	sqldriver.Conn
	two sqldriver.Conn
	s   *sharing
}

func (s *shared) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	conn := s.Conn
	if s.s.n.Add(1)%3 == 0 {
		conn = s.two
	}
	return conn.(sqldriver.QueryerContext).QueryContext(ctx, query, args)
}

func (s *shared) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return s.Conn.(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

func (s *shared) Close() error { return errors.Join(s.Conn.Close(), s.two.Close()) }

// Many locks share a few connections, and more claims than connections wait.
func TestSessionSharesConnections(t *testing.T) {
	t.Parallel()
	for _, conns := range []string{"1", "2", "8"} {
		t.Run(conns, func(t *testing.T) {
			t.Parallel()
			d, other := openSessionAt(t, sessionAt(server.Addr, "pool_max_conns="+conns)), openSessionAt(t, sessionAt(server.Addr))
			var held, waits []*driver.Claim
			for range 20 {
				a := claim(rand.Text(), rand.Text())
				mustEnter(t, d, a, true)
				again, b := claim(a.Name, rand.Text()), claim(rand.Text(), rand.Text())
				again.Try = true
				mustEnter(t, d, again, false) // though the server would give it twice on one connection
				again.Name, again.ID = strings.ToLower(a.Name), rand.Text()
				again.Try = true
				if p, err := d.Enter(timely(t), again); err != nil {
					t.Fatal(err)
				} else if p.Holds {
					leave(t, d, again)
				}
				mustEnter(t, other, b, true)
				held = append(held, b)
				c := claim(b.Name, rand.Text())
				mustEnter(t, d, c, false)
				waits = append(waits, c)
				leave(t, d, a)
			}
			for i, b := range held {
				leave(t, other, b)
				if p, err := d.Await(timely(t), waits[i]); err != nil || !p.Holds {
					t.Fatalf("await = %+v, %v; want that it holds", p, err)
				}
			}
			for _, c := range waits {
				leave(t, d, c)
			}
		})
	}
}

// Closing the client frees its locks, and a lease of it is lost when its connection is.
func TestSessionClient(t *testing.T) {
	t.Parallel()
	one, two := openSessionAt(t, sessionAt(server.Addr)), openSessionAt(t, sessionAt(server.Addr))
	client, err := stile.New(one, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	name := rand.Text()
	lease, err := client.Mutex(name).Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	b := claim(name, rand.Text())
	mustEnter(t, two, b, false)
	mustExec(t, raw(t, server, ""), "KILL IS_USED_LOCK('"+name+"')")
	servertest.Until(t, "the lease is lost", func() bool { return lease.Check() != nil })
	if p, err := two.Await(timely(t), b); err != nil || !p.Holds {
		t.Errorf("await = %+v, %v; want that it holds", p, err)
	}
	again := claim(name, rand.Text())
	mustEnter(t, one, again, false)
	two.Close()
	if p, err := one.Await(timely(t), again); err != nil || !p.Holds {
		t.Errorf("await after the close = %+v, %v; want that it holds", p, err)
	}
}

// Numbers may be signed or not, as MySQL and MariaDB answer CONNECTION_ID, or none at all.
func TestNumbers(t *testing.T) {
	t.Parallel()
	conn, err := raw(t, server, "").Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		got, err := numbersOf(timely(t), c.(sqldriver.Conn), "SELECT CAST(70000000000 AS UNSIGNED), -7, NULL")
		if want := []int64{70_000_000_000, -7, math.MinInt64}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
		if got, err := numbersOf(timely(t), c.(sqldriver.Conn), "SELECT 18446744073709551615"); !errors.Is(err, errNumbers) {
			t.Errorf("got %v, %v; want that it is no such number", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
