package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/session"
)

// sessionAt returns the URL of the user-level locks of a server.
func sessionAt(addr string, params ...string) string {
	return "mysql://root@" + addr + "/mysql?mode=session&" + strings.Join(params, "&")
}

func openSessionAt(t testing.TB, url string) *session.Session {
	t.Helper()
	d, err := driver.Open(timely(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*session.Session)
}

// locksAt returns the server at a URL. It was not asked yet.
func locksAt(t testing.TB, url string) *userLocks {
	t.Helper()
	a, err := driver.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	a.Param("mode", "")
	s, err := newUserLocks(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// waiters returns the connections that wait for a user-level lock.
func waiters(t testing.TB, lock string) (ids []int64) {
	t.Helper()
	rows, err := raw(t, server, "").QueryContext(timely(t), "SELECT id FROM information_schema.processlist WHERE info LIKE ?",
		"SELECT IF(GET_LOCK('"+lock+"', 1)%")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// mustEnter enters a claim, and checks whether it holds.
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

// A session and a bare GET_LOCK of the same name exclude each other, even if the name is hashed.
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

// An administrator ends the connection of a lock: its holder learns of this at once, and a waiter goes on waiting.
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
	var scouts []int64
	servertest.Until(t, "a connection waits", func() bool { scouts = waiters(t, waits.Name); return len(scouts) == 1 })
	start := time.Now()
	mustExec(t, db, fmt.Sprintf("KILL IS_USED_LOCK('%s')", a.Name))
	mustExec(t, db, fmt.Sprintf("KILL %d", scouts[0]))
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
	mustEnterSoon(t, two, claim("killed/a", rand.Text())) // the server closes a connection before it frees the locks
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

// The answer to a release is lost. The claim is reported gone only when its connection has ended, which is never used again.
func TestSessionReleaseAnswerLost(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	d, other := openSessionAt(t, sessionAt(proxy.Addr)), openSessionAt(t, sessionAt(server.Addr))
	a := claim(rand.Text(), rand.Text())
	mustEnter(t, d, a, true)
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
	if err := renew(t, other, b); err != nil {
		t.Errorf("renewal of who holds now = %v", err)
	}
	servertest.Until(t, "the connection is gone", func() bool {
		return errors.Is(d.Leave(timely(t), &driver.Release{Claim: a}), driver.ErrGone)
	})
}

// A claim is reported gone only with proof, after an unanswered Leave and after an unanswered Enter.
func TestSessionGoneIsProven(t *testing.T) {
	t.Parallel()
	for _, holds := range []bool{true, false} {
		t.Run(map[bool]string{true: "holds", false: "enters"}[holds], func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr)
			d, other := openSessionAt(t, sessionAt(proxy.Addr, "session_timeout=2s")), openSessionAt(t, sessionAt(server.Addr))
			a := claim(rand.Text(), rand.Text())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if holds {
				mustEnter(t, d, a, true)
			}
			proxy.Freeze(holds, true)
			if !holds {
				if _, err := d.Enter(ctx, a); driver.OutcomeOf(err) != driver.OutcomeUnknown {
					t.Fatalf("enter = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
				}
			}
			for range 2 {
				err := d.Leave(ctx, &driver.Release{Claim: a})
				if driver.OutcomeOf(err) != driver.OutcomeUnknown || errors.Is(err, driver.ErrGone) {
					t.Errorf("leave = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
				}
			}
			proxy.Cut()
			proxy.Mend()
			servertest.Until(t, "the claim is proven to be gone", func() bool {
				err := d.Leave(ctx, &driver.Release{Claim: a})
				return err == nil || errors.Is(err, driver.ErrGone)
			})
			try := claim(a.Name, rand.Text())
			try.Try = true
			mustEnter(t, other, try, true)
		})
	}
}

// A waiting claim enters again when only the scout has its lock, for a moment. A claim that leaves then does not delay
// others. On a slow machine this moment can be longer than Enter waits, so not every Enter must hold at once.
func TestSessionScouts(t *testing.T) {
	t.Parallel()
	one, two := openSessionAt(t, sessionAt(server.Addr)), openSessionAt(t, sessionAt(server.Addr))
	atOnce := 0
	for i := range 20 {
		a := claim(rand.Text(), rand.Text())
		b, try := claim(a.Name, rand.Text()), claim(a.Name, rand.Text())
		try.Try = true
		mustEnter(t, one, a, true)
		mustEnter(t, two, b, false)
		servertest.Until(t, "somebody waits", func() bool { return len(waiters(t, a.Name)) == 1 })
		if i%2 == 0 {
			leave(t, one, a)
			tries := 0
			servertest.Until(t, "the claim that waited holds", func() bool {
				tries++
				p, err := two.Enter(timely(t), b)
				if err != nil {
					t.Fatal(err)
				}
				return p.Holds
			})
			if tries == 1 {
				atOnce++
			}
			leave(t, two, b)
		} else {
			leave(t, two, b)
			leave(t, one, a)
		}
		mustEnter(t, one, try, true)
		leave(t, one, try)
	}
	if atOnce == 0 {
		t.Error("no claim that waited held by its first Enter")
	}
}

// mustEnterSoon enters a claim until it holds.
func mustEnterSoon(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if c.Ticket = p.Ticket; err == nil && !p.Holds {
		p, err = d.Await(timely(t), c)
	}
	if err != nil || !p.Holds {
		t.Fatalf("%+v, %v; want that it holds", p, err)
	}
}

// The server ends the connection of a silent client, and others get the lock, but not before the lease ends.
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

// A client that only holds is not treated as dead.
func TestSessionOutlastsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Second // signs of life come every third of it
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
	d := locksAt(t, sessionAt(server.Addr))
	shares := &sharing{Connector: d.connector}
	d.connector = shares
	home, err := d.examine(timely(t))
	if err != nil {
		t.Fatalf("connections that nobody shares: %v", err)
	}
	home.Close()
	shares.on.Store(true)
	_, err = d.examine(timely(t))
	says(t, err, "proxy shares", "mode=session")
	marks(t, err, true, false)
}

// sharing returns connections whose statements alternate between two connections of the server.
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

// A client has all its locks on one connection, and waits on another, for any number of locks.
func TestSessionSharesConnections(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	d := openSessionAt(t, "mysql://root@"+server.Addr+"/"+name+"?mode=session")
	other := openSessionAt(t, sessionAt(server.Addr))
	var held, waits []*driver.Claim
	for range 20 {
		a := claim(rand.Text(), rand.Text())
		mustEnter(t, d, a, true)
		again, b := claim(a.Name, rand.Text()), claim(rand.Text(), rand.Text())
		again.Try = true
		mustEnter(t, d, again, false) // the server itself would give it twice on one connection
		again.Name, again.ID = strings.ToLower(a.Name), rand.Text()
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
	servertest.Until(t, "two connections are left", func() bool {
		var n int
		const conns = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ?"
		if err := raw(t, server, "").QueryRowContext(timely(t), conns, name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n <= 2
	})
	for _, c := range waits {
		leave(t, d, c)
	}
}

// Closing the client frees its locks, and its lease is lost with the connection.
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

// Numbers may be signed or unsigned, as in the answers of MySQL and MariaDB to CONNECTION_ID, or NULL.
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

// A wait ends within a second, whether the lock is free or not, and leaves nothing locked.
func TestSessionWait(t *testing.T) {
	t.Parallel()
	lane := awake.Lane(t)
	locks := locksAt(t, sessionAt(server.Addr))
	var conns [2]session.Conn
	for i := range conns {
		c, err := locks.Connect(timely(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	step := session.Step{Key: locks.Key(rand.Text())}
	do := func(c session.Conn, want bool) {
		t.Helper()
		if done, _, err := c.Do(timely(t), []session.Step{step}); err != nil || done[0] != want {
			t.Errorf("%+v = %v, %v; want %v", step, done, err, want)
		}
	}
	do(conns[1], true)
	start := time.Now()
	if err := conns[0].Wait(timely(t), step.Key, false); err != nil {
		t.Errorf("a wait in vain = %v", err)
	}
	lane.Within(time.Since(start), 3*time.Second/2, "a wait of a second in vain")
	step.Free = true
	do(conns[1], true)
	if err := conns[0].Wait(timely(t), step.Key, false); err != nil {
		t.Errorf("a wait for a free lock = %v", err)
	}
	do(conns[0], false)
}
