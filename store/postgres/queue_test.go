package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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

// race repeatedly lets two claims enter a name at once, and returns how often both held.
func race(t *testing.T, rounds int, enter func(name string, i int) (bool, error)) (both int) {
	t.Helper()
	for round := range rounds {
		var holders atomic.Int64
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				holds, err := enter(fmt.Sprint(round), i)
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				if holds {
					holders.Add(1)
				}
			})
		}
		all.Wait()
		if holders.Load() > 1 {
			both++
		}
	}
	return both
}

// A tempting single statement takes a lock, inserts and counts the claims ahead. It counts in a snapshot from before it
// waited for the lock, and lets two hold. The function does not.
func TestSingleStatementTrap(t *testing.T) {
	t.Parallel()
	const rounds = 60
	pool := connect(t, server)
	d := open(t, fresh(server))
	s := d.tables.schema
	exec(t, pool, `CREATE TABLE "`+s+`".trap (name text, id int)`)
	trap := `WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext($1))),
added AS (INSERT INTO "` + s + `".trap SELECT $1, $2 FROM locked RETURNING 1)
SELECT (SELECT count(*) FROM "` + s + `".trap WHERE name = $1) = 0 FROM added`
	first, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtext('0'))"); err != nil {
		t.Fatal(err)
	}
	go func() {
		servertest.Until(t, "both wait for the lock", func() bool {
			var n int
			const waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE '%' || $1 || '%'"
			return pool.QueryRow(t.Context(), waits, s).Scan(&n) != nil || n == 2
		})
		_ = first.Rollback(t.Context())
	}()
	if both := race(t, 1, func(name string, i int) (holds bool, err error) {
		err = pool.QueryRow(t.Context(), trap, name, i).Scan(&holds)
		return holds, err
	}); both != 1 {
		t.Error("the single statement let nobody hold beside another: the test proves nothing")
	}
	if both := race(t, rounds, func(name string, i int) (bool, error) {
		p, err := d.Enter(timely(t), claim(name, fmt.Sprint(i)))
		return p.Holds, err
	}); both > 0 {
		t.Errorf("two held in %d of %d races", both, rounds)
	}
}

// stepped makes tables whose functions read a clock that the test can step.
func stepped(t testing.TB) (d *Driver, step func(by time.Duration)) {
	t.Helper()
	pool := connect(t, server)
	p := tables{schema(), DefaultPrefix}
	exec(t, pool, p.fill(`CREATE SCHEMA "{schema}"; CREATE TABLE "{schema}".step (by interval);
INSERT INTO "{schema}".step VALUES ('0')`), asText)
	const clock, stepping = "clock_timestamp()", `(clock_timestamp() + (SELECT by FROM "{schema}".step))`
	exec(t, pool, p.fill(strings.ReplaceAll(schemaText, clock, stepping)), asText)
	d = open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+p.schema)
	hasCleaned(t, d)
	return d, func(by time.Duration) {
		exec(t, pool, p.fill(`UPDATE "{schema}".step SET by = make_interval(secs => $1)`), by.Seconds())
	}
}

// hasCleaned waits until a driver has cleaned for the first time, right after it was opened.
func hasCleaned(t testing.TB, d *Driver) {
	t.Helper()
	servertest.Until(t, "the driver has cleaned for the first time", func() bool {
		return count(t, d, `"{schema}".{prefix}meta WHERE cleaned > 0`) == 1
	})
}

// The server's clock steps. Forward, leases end early, and their holders learn of this. Back, leases last longer. Tickets
// rise in any case.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	d, step := stepped(t)
	a, b, c := claim("name", "a"), claim("name", "b"), claim("name", "c")
	enter(t, d, a)
	step(2 * time.Minute)
	if p := enter(t, d, b); !p.Holds || b.Ticket <= a.Ticket {
		t.Errorf("after a step forward the place is %+v; want it to hold with a ticket above %d", p, a.Ticket)
	}
	if err := renew(t, d, a); !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal of the lease that was ended: %v; want ErrGone", err)
	}
	step(-time.Hour)
	if err := renew(t, d, b); err != nil {
		t.Errorf("renewal after a step back: %v", err)
	}
	leave(t, d, b)
	if enter(t, d, c); c.Ticket != b.Ticket+1 {
		t.Errorf("after a step back the ticket is %d; want %d", c.Ticket, b.Ticket+1)
	}
}

// Only the rows of idle names are deleted, and their tickets do not come again, even if the clock went back.
func TestClean(t *testing.T) {
	t.Parallel()
	d, step := stepped(t)
	last := map[string]int64{}
	for _, name := range []string{"idle", "held", "fresh"} {
		c := claim(name, name)
		c.TTL = 24 * time.Hour
		if name == "fresh" {
			step(2 * time.Hour)
		}
		enter(t, d, c)
		last[name] = c.Ticket
		if name != "held" {
			leave(t, d, c)
		}
	}
	var watched sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan struct{}, 100)
	watched.Go(func() { _ = d.Watch(ctx, "watched", func() { seen <- struct{}{} }) })
	<-seen
	if n, err := d.clean(timely(t), time.Hour, 100); n != 1 || err != nil {
		t.Errorf("clean = %d, %v; want the idle name alone", n, err)
	}
	cancel()
	watched.Wait()
	step(-24 * time.Hour)
	for name, ticket := range last {
		if name == "held" {
			continue
		}
		if c := claim(name, name+" again"); enter(t, d, c).Ticket <= ticket {
			t.Errorf("%s: ticket %d after %d", name, c.Ticket, ticket)
		}
	}
}

// Names enter while their rows are cleaned away. No two claims hold at once, and tickets rise.
func TestCleanWhileEntering(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var cleaner sync.WaitGroup
	var cleaned atomic.Int64
	cleaner.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			n, err := d.clean(timely(t), 0, 100)
			if err != nil {
				t.Errorf("clean: %v", err)
				return
			}
			cleaned.Add(n)
		}
	})
	var holders atomic.Int64
	var highest atomic.Int64
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := 0; i < 60 || cleaned.Load() < 3 && ctx.Err() == nil; i++ {
				c := claim("name", fmt.Sprintf("%d-%d", w, i))
				c.Try = true
				if p := enter(t, d, c); !p.Holds {
					continue
				}
				if holders.Add(1) > 1 {
					t.Error("two hold")
				}
				if was := highest.Swap(c.Ticket); was >= c.Ticket {
					t.Errorf("ticket %d after %d", c.Ticket, was)
				}
				holders.Add(-1)
				leave(t, d, c)
			}
		})
	}
	all.Wait()
	cancel()
	cleaner.Wait()
	if cleaned.Load() == 0 {
		t.Error("nothing was cleaned: the test proves nothing")
	}
}

// A notification that matches no claim has no effect.
func TestStrangeNotifications(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	pool := connect(t, server)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	for _, text := range []string{"", " ", "rubbish", "7", "7 ", "7 zz", "7 62 ", "x 62", "7 6262", fmt.Sprint(b.Ticket)} {
		exec(t, pool, "SELECT pg_notify($1, $2)", d.channel, text)
		exec(t, pool, "SELECT pg_notify($1, $2)", d.tables.channel(), text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if p, err := d.Await(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await: %+v, %v after notifications that mean nothing", p, err)
	}
	exec(t, pool, "SELECT pg_notify($1, '7 62')", d.channel)
	if p, err := d.Await(timely(t), b); err != nil || p.Holds {
		t.Errorf("await: %+v, %v after a notification with another ticket; want an early return", p, err)
	}
}

// Waiting costs the server no statements, and a client one connection for listening.
func TestWaitingIsQuiet(t *testing.T) {
	t.Parallel()
	url := fresh(server, "application_name=quiet")
	d := open(t, url)
	config := connect(t, server).Config()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	hasCleaned(t, d)
	enter(t, d, claim("name", "holder"))
	var waiters []*driver.Claim
	for i := range 100 {
		c := claim("name", fmt.Sprint("waiter-", i))
		enter(t, d, c)
		listens(t, d, c)
		waiters = append(waiters, c)
	}
	told := d.watch.begin("name")
	for len(told) > 0 {
		<-told
	}
	exec(t, pool, "SELECT pg_notify($1, $2)", d.tables.channel(), hex.EncodeToString([]byte("name")))
	<-told // its connection is not idle for long enough to be tested
	var last, now time.Time
	const latest = "SELECT max(query_start) FROM pg_stat_activity WHERE application_name = 'quiet'"
	scan(t, pool, &last, latest)
	ctx, cancel := context.WithTimeout(t.Context(), tryEvery/3)
	defer cancel()
	ended := make(chan error, 100)
	for _, c := range waiters {
		go func() {
			_, err := d.Await(ctx, c)
			ended <- err
		}()
	}
	for range 100 {
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await ends with %v", err)
		}
	}
	scan(t, pool, &now, latest)
	if !now.Equal(last) {
		t.Errorf("a statement was sent %v after the last that was needed", now.Sub(last))
	}
	var n int
	scan(t, pool, &n, `SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'quiet' AND (query LIKE 'LISTEN%' OR query LIKE 'SELECT (SELECT left%' OR query = 'SELECT 1')`)
	if n != 1 {
		t.Errorf("%d connections listen; want one", n)
	}
}

// A claim's lease and ticket are on disk before the answer, even if the user's transactions are not synchronous.
func TestCommitsAreSynchronous(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	pool := connect(t, server)
	const lasting = "'a', '', '', '', '', 1, 1, 60000000, 60000000, 0, 0, 0, false, false"
	for verb, test := range map[string]struct {
		set, want string
		call      string
	}{
		"enter":  {"off", "on", "'enter', 'x', " + lasting},
		"local":  {"local", "on", "'enter', 'y', " + lasting},
		"strong": {"remote_apply", "remote_apply", "'enter', 'z', " + lasting},
		"leave":  {"on", "off", "'leave', 'none', 'a', '', '', '', '', 1, 1, 0, 0, 0, 0, 0, false, false"},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if verb == "leave" { // of a claim in the store
				enters := d.tables.fill(`SELECT "{schema}".{prefix}do('enter', 'none', ` + lasting + ")")
				if _, err := tx.Exec(t.Context(), enters); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = "+test.set); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), d.tables.fill(`SELECT "{schema}".{prefix}do(`+test.call+")")); err != nil {
				return err
			}
			var got string
			if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil {
				return err
			}
			if got != test.want {
				t.Errorf("%s: synchronous_commit is %s at the end; want %s", verb, got, test.want)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
