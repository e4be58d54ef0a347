package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"github.com/stilelock/stile/internal/awake"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The server is killed while one claim holds and one waits, and comes back with both.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t, "fsync = on")
	url := fresh(s)
	one, two := open(t, url), open(t, url)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, one, a)
	enter(t, two, b)
	listens(t, two, b)
	woken := make(chan error, 1)
	go func() {
		_, err := two.Await(timely(t), b)
		woken <- err
	}()
	servertest.KillPostgres(s)
	if err := <-woken; err != nil {
		t.Errorf("await ends with %v when the connection is lost", err)
	}
	var err error
	servertest.Until(t, "there is no connection", func() bool {
		_, err = one.Enter(timely(t), a)
		return driver.NotApplied(err)
	})
	says(t, err, "cannot connect to postgres at "+s.Addr, "refused")
	marks(t, err, true, true)

	s.Restart()
	servertest.Until(t, "the holder is found again", func() bool { return renew(t, one, a) == nil })
	if p := enter(t, two, b); p.Holds || p.Ahead != 1 {
		t.Errorf("the waiter's place is %+v", p)
	}
	listens(t, two, b)
	leave(t, one, a)
	if p := await(t, two, b); p.Ticket != b.Ticket {
		t.Errorf("ticket %d, want %d", p.Ticket, b.Ticket)
	}
}

// An administrator ends all connections of the driver. The claims stay: they are in the tables, not in connections.
func TestConnectionsKilled(t *testing.T) {
	t.Parallel()
	url := fresh(server, "application_name=victim")
	d, other := open(t, url), open(t, strings.Replace(url, "victim", "other", 1))
	admin := connect(t, server)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	woken := make(chan error, 1)
	go func() {
		_, err := d.Await(timely(t), b)
		woken <- err
	}()
	var n int
	scan(t, admin, &n, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victim'")
	if n < 2 {
		t.Fatalf("%d connections were ended", n)
	}
	if err := <-woken; err != nil {
		t.Errorf("await ends with %v when its connection is killed", err)
	}
	servertest.Until(t, "the holder is renewed", func() bool {
		err := renew(t, d, a)
		if errors.Is(err, driver.ErrGone) {
			t.Fatal(err)
		}
		return err == nil
	})
	enter(t, d, b)
	listens(t, d, b)
	leave(t, other, a)
	await(t, d, b)
}

var kills = flag.Int("kills", 25, "how often the server is killed while claims enter")

// The server is killed again and again while claims enter. Every answered claim is still there, and no ticket is given
// twice.
func TestKilledWhileEntering(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t, "fsync = on", "wal_writer_delay = 10s")
	d := open(t, fresh(s))
	const workers = 4
	alone := claim("alone", "") // it comes and goes in the row of its name
	var (
		mu      sync.Mutex
		tickets = map[int64]string{}
		highest int64
	)
	for round := range *kills {
		floor := highest
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				was := alone.Ticket
				alone = claim("alone", fmt.Sprintf("%d-%d", round, i))
				alone.TTL, alone.Wait = 100*time.Millisecond, 100*time.Millisecond // so that the last one does not stay
				p, err := d.Enter(ctx, alone)
				if alone.Ticket = max(was, p.Ticket); err == nil && p.Ticket <= was {
					t.Errorf("alone: ticket %d after %d", p.Ticket, was)
				}
				if err != nil || d.Leave(ctx, &driver.Release{Claim: alone}) != nil {
					return
				}
			}
		})
		for w := range workers {
			all.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					c := claim("name", fmt.Sprintf("%d-%d-%d", round, w, i))
					c.Weight, c.TTL, c.Wait = 1, 30*time.Minute, 30*time.Minute
					p, err := d.Enter(ctx, c)
					if err != nil {
						return
					}
					mu.Lock()
					if was := tickets[p.Ticket]; was != "" || p.Ticket <= floor {
						t.Errorf("%s got ticket %d, which %q had, after %d", c.ID, p.Ticket, was, floor)
					}
					tickets[p.Ticket] = c.ID
					highest = max(highest, p.Ticket)
					mu.Unlock()
				}
			})
		}
		servertest.Until(t, "claims enter", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return highest > floor
		})
		pause := time.NewTimer(rand.N(20 * time.Millisecond))
		<-pause.C
		servertest.KillPostgres(s)
		cancel()
		all.Wait()
		s.Restart()
	}
	var standing map[int64]bool
	servertest.Until(t, "the server answers", func() bool {
		list, err := d.List(timely(t), &driver.Query{Name: "name"})
		if err != nil {
			return false
		}
		standing = map[int64]bool{}
		for _, c := range list[0].Claims {
			standing[c.Ticket] = true
		}
		return true
	})
	for ticket, id := range tickets {
		if !standing[ticket] {
			t.Errorf("claim %s with ticket %d was confirmed, and is gone", id, ticket)
		}
	}
	t.Logf("%d claims entered in %d lives of the server", len(tickets), *kills)
}

// The answer to an Enter is lost. The same Enter again finds the claim.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	url := fresh(server)
	d, direct := open(t, strings.Replace(url, server.Addr, proxy.Addr, 1)), open(t, url)
	a := claim("name", "a")
	first := claim("name", "first")
	enter(t, d, first)
	leave(t, d, first) // from now on, one round trip each
	proxy.Freeze(false, true)
	done := make(chan error, 1)
	go func() {
		_, err := d.Enter(timely(t), claim("name", "a"))
		done <- err
	}()
	var ticket int64
	servertest.Until(t, "the claim is entered", func() bool {
		list, err := direct.List(timely(t), &driver.Query{Name: "name"})
		if err != nil || len(list) == 0 {
			return false
		}
		ticket = list[0].Claims[0].Ticket
		return true
	})
	proxy.Drop()
	marks(t, <-done, false, true)
	if p := enter(t, d, a); p.Ticket != ticket || p.Ahead != 0 {
		t.Errorf("asked again, the place is %+v; want ticket %d", p, ticket)
	}
	leave(t, d, a)
}

// The server hangs. A call still ends with its context, and its outcome is unknown.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	d := open(t, strings.Replace(fresh(server), server.Addr, proxy.Addr, 1))
	lane := awake.Lane(t)
	a := claim("name", "a")
	enter(t, d, a)
	proxy.Freeze(true, true)
	for name, verb := range map[string]func(ctx context.Context) error{
		"enter": func(ctx context.Context) error { _, err := d.Enter(ctx, a); return err },
		"renew": func(ctx context.Context) error { return d.Renew(ctx, []*driver.Claim{a})[0].Err },
		"leave": func(ctx context.Context) error { return d.Leave(ctx, &driver.Release{Claim: a}) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		err := verb(ctx)
		cancel()
		lane.Within(time.Since(start), 7*time.Second, "%s, whose context ends,", name) // half of the driver's own bound
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrGone) {
			t.Errorf("%s ends with %v; want the context's error", name, err)
		}
	}
	ended, asked := make(chan error, 1), proxy.Asked()
	go func() {
		_, err := d.Enter(timely(t), a)
		ended <- err
	}()
	servertest.Until(t, "the call is under way", func() bool { return proxy.Asked() > asked })
	start := time.Now()
	d.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a call ends without an error when the driver is closed")
		}
	case <-awake.For(time.Minute):
		t.Fatal("a call outlives the driver")
	}
	lane.Within(time.Since(start), 5*time.Second, "the end of a call with its driver")
}

// A request that waits too long for another's transaction is undone, by either limit, and the error says so.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"statement_timeout": "longer than statement_timeout",
		"lock_timeout":      "longer than lock_timeout",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			admin := connect(t, server)
			config := admin.Config()
			var limited atomic.Bool // on a machine that stands still, a request that need not wait could take as long too
			config.PrepareConn = func(ctx context.Context, c *pgx.Conn) (bool, error) {
				value := map[bool]string{true: "100ms", false: "0"}[limited.Load()]
				_, err := c.Exec(ctx, "SET "+setting+" = '"+value+"'")
				return err == nil, err
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			o := &Options{Schema: schema()}
			d, err := New(t.Context(), pool, o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			a := claim("name", "a")
			enter(t, d, a)
			tx, err := admin.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			if _, err := tx.Exec(t.Context(), d.tables.fill(`SELECT FROM "{schema}".{prefix}name FOR UPDATE`)); err != nil {
				t.Fatal(err)
			}
			limited.Store(true)
			err = renew(t, d, a)
			says(t, err, want)
			marks(t, err, true, true)
			limited.Store(false)
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := renew(t, d, a); err != nil {
				t.Errorf("renew afterwards: %v", err)
			}
		})
	}
}

// Somebody empties, drops or recreates the tables while locks are held. The holders learn of this, and tickets go on rising.
func TestTablesTampered(t *testing.T) {
	t.Parallel()
	admin := connect(t, server)
	const claims, names, meta = `"{schema}".stile_claim`, `"{schema}".stile_name`, `"{schema}".stile_meta`
	for what, test := range map[string]struct{ change, entered string }{
		"claims emptied":   {"TRUNCATE " + claims, ""},
		"both emptied":     {"TRUNCATE " + claims + ", " + names, ""},
		"all emptied":      {"TRUNCATE " + claims + ", " + names + ", " + meta, "the tables of locks were emptied"},
		"schema dropped":   {`DROP SCHEMA "{schema}" CASCADE`, "the tables of locks are gone"},
		"made anew":        {`DROP SCHEMA "{schema}" CASCADE; CREATE SCHEMA "{schema}"; ` + schemaText, ""},
		"function dropped": {`DROP FUNCTION "{schema}".stile_do CASCADE`, "the tables of locks are gone"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := open(t, fresh(server))
			hasCleaned(t, d) // it waits for these tables in the reverse order
			a := claim("name", "a")
			enter(t, d, a)
			exec(t, admin, d.tables.fill(test.change), asText)
			err := renew(t, d, a)
			if test.entered == "" && !errors.Is(err, driver.ErrGone) {
				t.Errorf("renew: %v; want ErrGone", err)
			}
			if err == nil {
				t.Error("the lease is renewed")
			}
			b := claim("name", "b")
			p, err := d.Enter(timely(t), b)
			if test.entered != "" {
				says(t, err, test.entered)
				marks(t, err, true, false)
			} else if err != nil || p.Ticket <= a.Ticket {
				t.Errorf("enter = %+v, %v; want a ticket above %d", p, err, a.Ticket)
			}
		})
	}
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	admin := connect(t, server)
	enter(t, d, claim("name", "a"))
	// The server's error when its disk is full.
	exec(t, admin, d.tables.fill(`CREATE FUNCTION "{schema}".full() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER t BEFORE INSERT ON "{schema}".{prefix}claim EXECUTE FUNCTION "{schema}".full()`), asText)
	_, err := d.Enter(timely(t), claim("name", "b"))
	says(t, err, "the disk is full")
	marks(t, err, true, false)
}

func TestStandbyRefused(t *testing.T) {
	t.Parallel()
	primary := servertest.Postgres(t)
	standby := servertest.PostgresStandby(t, primary)
	err := refuses(t, fresh(standby), "postgres is a standby here", "use the address of the primary")
	marks(t, err, true, false)
}

// A late standby is promoted. The claims that it lacks are lost at once, with the reason; the others are not, and tickets go
// on rising.
func TestStandbyPromoted(t *testing.T) {
	t.Parallel()
	primary := servertest.Postgres(t)
	standby := servertest.PostgresStandby(t, primary)
	admin, second := connect(t, primary), connect(t, standby)
	s := schema()
	d := open(t, "postgres://postgres@"+primary.Addr+","+standby.Addr+"/postgres?schema="+s)
	if traits := d.Traits(); traits.Failover || traits.Fencing != driver.ClockFencing {
		t.Errorf("with a standby that follows late the traits are %+v", traits)
	}
	alerted := make(chan []string, 100)
	d.Alert(func(ids ...string) { alerted <- ids })
	kept, lost := claim("kept", "a"), claim("lost", "b")
	enter(t, d, kept)
	servertest.Until(t, "the standby is in step", func() bool {
		var n int
		err := second.QueryRow(t.Context(), `SELECT count(*) FROM "`+s+`".stile_claim`).Scan(&n)
		return err == nil && n == 1
	})
	var cut bool
	exec(t, second, "ALTER SYSTEM SET primary_conninfo = ''")
	scan(t, second, &cut, "SELECT pg_reload_conf()")
	servertest.Until(t, "the standby no longer follows", func() bool {
		var n int
		scan(t, admin, &n, "SELECT count(*) FROM pg_stat_replication")
		return n == 0
	})
	enter(t, d, lost)
	waits := claim("kept", "c")
	enter(t, d, waits)
	listens(t, d, waits)
	servertest.KillPostgres(primary)
	scan(t, second, &cut, "SELECT pg_promote()")
	for all := false; !all; {
		select {
		case ids := <-alerted: // also with claims that hold, when the driver begins to listen
			slices.Sort(ids)
			all = slices.Equal(ids, []string{"a", "b", "c"})
		case <-timely(t).Done():
			t.Fatal("the client is not told that all its claims are in danger")
		}
	}
	servertest.Until(t, "the promoted standby answers", func() bool { return renew(t, d, kept) == nil })
	err := renew(t, d, lost)
	if !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal of the claim that the standby lacks: %v; want ErrGone", err)
	}
	says(t, err, "a standby was promoted since (timeline 00000001, now 00000002)")
	was := lost.Ticket
	next := claim("lost", "d")
	if enter(t, d, next); next.Ticket <= was {
		t.Errorf("ticket %d after %d", next.Ticket, was)
	}
}

// Another cluster answers at the same address, here with a copy of the claims. All leases are lost at once, with the reason,
// and tickets go on rising.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	one, other := servertest.Postgres(t), servertest.Postgres(t)
	s := schema()
	copied := open(t, "postgres://postgres@"+other.Addr+"/postgres?schema="+s)
	d := open(t, "postgres://postgres@"+one.Addr+","+other.Addr+"/postgres?schema="+s)
	alerted := make(chan []string, 10)
	d.Alert(func(ids ...string) { alerted <- ids })
	a, b, c := claim("name", "a"), claim("name", "b"), claim("name", "c")
	enter(t, copied, claim("name", "a"))
	enter(t, d, a)
	servertest.KillPostgres(one)
	var err error
	servertest.Until(t, "the other cluster answers", func() bool {
		err = renew(t, d, a)
		return err == nil || errors.Is(err, driver.ErrGone)
	})
	if !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal of a claim that the other cluster has a copy of: %v; want ErrGone", err)
	}
	says(t, err, "another cluster of PostgreSQL answers than before (system ")
	if ids := <-alerted; !slices.Equal(ids, []string{"a"}) {
		t.Errorf("%q are in danger; want all", ids)
	}
	if enter(t, d, b); b.Ticket <= a.Ticket {
		t.Errorf("ticket %d after %d", b.Ticket, a.Ticket)
	}
	if err := renew(t, d, b); err != nil {
		t.Errorf("renewal of a claim that entered there: %v", err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: c}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leaving with a claim that never entered: %v; want ErrGone", err)
	}
}

// The server waits for a synchronous standby, whatever the default of the user's transactions, so a failover to it loses
// nothing.
func TestSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary, standby := servertest.PostgresPair(t)
	admin, second := connect(t, primary), connect(t, standby)
	exec(t, admin, "ALTER ROLE postgres SET synchronous_commit = off")
	s := schema()
	d := open(t, "postgres://postgres@"+primary.Addr+","+standby.Addr+"/postgres?schema="+s)
	if traits := d.Traits(); !traits.Failover || traits.Fencing != driver.DurableFencing {
		t.Errorf("with a synchronous standby the traits are %+v", traits)
	}
	var claims []*driver.Claim
	for i := range 20 {
		before := claim(fmt.Sprint("alone/", i), "before") // makes the row of the name, which is then empty
		enter(t, d, before)
		leave(t, d, before)
	}
	for i := range 20 {
		c, alone := claim("name", fmt.Sprint(i)), claim(fmt.Sprint("alone/", i), "now")
		c.Weight = 1
		enter(t, d, c)
		enter(t, d, alone)
		claims = append(claims, c, alone)
	}
	servertest.KillPostgres(primary)
	var done bool
	scan(t, second, &done, "SELECT pg_promote()")
	for _, c := range claims {
		servertest.Until(t, "the promoted standby answers", func() bool {
			err := renew(t, d, c)
			if errors.Is(err, driver.ErrGone) {
				t.Fatalf("claim %s: %v", c.ID, err)
			}
			return err == nil
		})
	}
}
