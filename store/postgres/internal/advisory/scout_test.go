package advisory

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// waits has a client wait for a claim, and never poll for it.
func waits(t *testing.T, s *session, c *driver.Claim) (told chan driver.Place) {
	t.Helper()
	enter(t, s, c, false)
	if err := s.order(timely(t), func() { s.look = time.Now().Add(time.Hour) }); err != nil {
		t.Fatal(err)
	}
	told = make(chan driver.Place, 1)
	ctx := timely(t)
	go func() {
		defer close(told)
		if p, err := s.Await(ctx, c); err == nil {
			told <- p
		}
	}()
	return told
}

// inServer counts the connections of an application that wait for an advisory lock in the server.
func inServer(t *testing.T, application string) int {
	t.Helper()
	return count(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'advisory'", application)
}

// A client that does not poll holds when the other has left, be it with a shared lock or an exclusive one.
func TestScout(t *testing.T) {
	t.Parallel()
	for _, weight := range []int64{1, driver.All} {
		one, two := open(t, at(server)), open(t, at(server))
		name := rand.Text()
		held, next := claim(name, rand.Text()), claim(name, rand.Text())
		held.Weight, next.Weight = driver.All, weight
		enter(t, one, held, true)
		told := waits(t, two, next)
		leave(t, one, held)
		if p := <-told; !p.Holds {
			t.Errorf("weight %d: the waiter was told %+v", weight, p)
		}
		reader := claim(name, rand.Text())
		reader.Weight = 1
		enter(t, one, reader, weight == 1) // the scout has nothing
		leave(t, two, next)
	}
}

// A claim that waits enters again when the scout has locked its key, and the answer to that is still on its way. So it is for the
// one that keeps the key, and for the one that does not since two connections have keys.
func TestScoutIsAboutToReturn(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		application := "returns-" + rand.Text()
		one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
		if full {
			enter(t, two, claim(rand.Text(), rand.Text()), true)
			first := claim(rand.Text(), rand.Text())
			enter(t, one, first, true)
			second := claim(first.Name, rand.Text())
			told := waits(t, two, second)
			servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
			leave(t, one, first)
			if p := <-told; !p.Holds {
				t.Fatalf("the waiter was told %+v", p)
			}
		}
		held := claim(rand.Text(), rand.Text())
		next := claim(held.Name, rand.Text())
		enter(t, one, held, true)
		enter(t, two, next, false)
		servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
		ctx := timely(t)
		var (
			left, entered error
			p             driver.Place
		)
		if err := two.order(ctx, func() { // so that the loop hears nothing of the scout in between
			left = one.Leave(ctx, &driver.Release{Claim: held})
			p, entered = two.enter(next)
		}); err != nil || left != nil || entered != nil || !p.Holds {
			t.Errorf("leave = %v, enter = %+v, %v, %v; want that it holds (two connections have keys: %v)", left, p, entered, err, full)
		}
		leave(t, two, next)
	}
}

// The scout goes for the next key when the first is not waited for any more, and nothing of it stays in the server.
func TestScoutIsRecalled(t *testing.T) {
	t.Parallel()
	const application = "recalled"
	one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
	var held, next [2]*driver.Claim
	for i := range held {
		name := rand.Text()
		held[i], next[i] = claim(name, rand.Text()), claim(name, rand.Text())
		enter(t, one, held[i], true)
	}
	first, second := waits(t, two, next[0]), waits(t, two, next[1])
	servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
	leave(t, two, next[0])
	if p := <-first; p.Holds {
		t.Errorf("one that left was told %+v", p)
	}
	leave(t, one, held[1])
	if p := <-second; !p.Holds {
		t.Errorf("the second was told %+v", p)
	}
	servertest.Until(t, "nothing waits in the server", func() bool { return inServer(t, application) == 0 })
}

// A scout whose connection is ended leaves the waiting to the polls, and goes again.
func TestScoutIsKilled(t *testing.T) {
	t.Parallel()
	one, two := open(t, at(server)), open(t, at(server, "application_name=killed-scout"))
	name := rand.Text()
	held, next := claim(name, rand.Text()), claim(name, rand.Text())
	enter(t, one, held, true)
	told := waits(t, two, next)
	servertest.Until(t, "the scout waits", func() bool { return inServer(t, "killed-scout") == 1 })
	kill(t, "killed-scout")
	servertest.Until(t, "the scout waits again", func() bool { return inServer(t, "killed-scout") == 1 })
	leave(t, one, held)
	if p := <-told; !p.Holds {
		t.Errorf("the waiter was told %+v", p)
	}
}

// The answer to the scout takes a while, and meanwhile the claim enters again. Its lease ends no later than the server ends the
// connection if it hears no more on that: the server counts from when it gave the key, and not from the Enter.
func TestLeaseOfLateScout(t *testing.T) {
	t.Parallel()
	application := "late-" + rand.Text()
	one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
	held := claim(rand.Text(), rand.Text())
	next := claim(held.Name, rand.Text())
	next.TTL = 2 * two.timeout
	enter(t, one, held, true)
	enter(t, two, next, false)
	servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
	var (
		given string // when the server gave the key and began to count
		p     driver.Place
		err   error
	)
	heard := func() (at string) {
		const last = "SELECT max(a.state_change)::text FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND l.granted AND l.locktype = 'advisory' " +
			"WHERE a.application_name = $1 AND a.state = 'idle' AND l.objsubid = 1 " +
			"AND (l.classid::bigint << 32 | l.objid::bigint) = $2::bigint"
		return text(t, last, application, Key(next.Name))
	}
	if err := two.order(timely(t), func() { // so that the loop hears nothing of the scout in between
		leave(t, one, held)
		servertest.Until(t, "the scout has the key", func() bool { given = heard(); return given != "" })
		p, err = two.enter(next)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v; want that it holds", p, err)
	}
	if p.TTL > two.timeout/2 && heard() == given {
		t.Errorf("the lease is %v from the Enter, and the server has heard nothing on the connection since it gave the key before", p.TTL)
	}
}

// text asks the server for a text, empty if there is none.
func text(t testing.TB, statement string, args ...any) (s string) {
	t.Helper()
	conn, err := pgx.Connect(timely(t), at(server))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var some *string
	if err := conn.QueryRow(timely(t), statement, args...).Scan(&some); err != nil {
		t.Fatal(err)
	}
	if some != nil {
		s = *some
	}
	return s
}

// While clients wait, in all the ways in which one waits in the server, others create indexes concurrently, and what they delete is
// removed: no wait holds that back for long.
func TestWaitHoldsBackNobody(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t)
	lane := awake.Lane(t)
	one := open(t, at(s))
	for _, full := range []bool{false, true} {
		for _, weight := range []int64{1, driver.All} {
			two := open(t, at(s, "application_name=waits"))
			if full {
				enter(t, two, claim(rand.Text(), rand.Text()), true)
				first := claim(rand.Text(), rand.Text())
				enter(t, one, first, true)
				told := waits(t, two, claim(first.Name, rand.Text()))
				servertest.Until(t, "the first is waited for", func() bool { return two.scoutIsOut(t) })
				leave(t, one, first)
				<-told
			}
			held := claim(rand.Text(), rand.Text())
			next := claim(held.Name, rand.Text())
			next.Weight = weight
			enter(t, one, held, true)
			waits(t, two, next)
		}
	}
	ctx := timely(t)
	conn, err := pgx.Connect(ctx, at(s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(statements ...string) {
		t.Helper()
		for _, text := range statements {
			if _, err := conn.Exec(ctx, text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	waiting := func() bool {
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event = 'advisory'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 4
	}
	exec("CREATE TABLE work AS SELECT i FROM generate_series(1, 10000) i")
	servertest.Until(t, "all four wait in the server", waiting)
	const bound = 2 * time.Second
	start := time.Now()
	exec("CREATE INDEX CONCURRENTLY work_i ON work (i)")
	lane.Within(time.Since(start), bound, "CREATE INDEX CONCURRENTLY")
	servertest.Until(t, "all four wait in the server", waiting)
	exec("DELETE FROM work")
	start = time.Now()
	servertest.Until(t, "VACUUM removes what was deleted", func() bool {
		exec("VACUUM work")
		var size int
		if err := conn.QueryRow(ctx, "SELECT pg_relation_size('work')").Scan(&size); err != nil {
			t.Fatal(err)
		}
		return size == 0
	})
	lane.Within(time.Since(start), bound, "VACUUM removes what was deleted")
}

// scoutIsOut reports whether a client waits in the server.
func (s *session) scoutIsOut(t *testing.T) (out bool) {
	if err := s.order(timely(t), func() { out = s.scout.state == scoutOut && s.scout.pid.Load() != 0 }); err != nil {
		t.Fatal(err)
	}
	return out
}

// The server may give a key just when the time of a wait is over. So what a wait answers then is what the server has.
func TestErrandThatIsOver(t *testing.T) {
	t.Parallel()
	var conns [2]*pgx.Conn
	for i := range conns {
		conn, err := pgx.Connect(timely(t), at(server))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		conns[i] = conn
	}
	for _, key := range []int64{Key(rand.Text()), -1, 1 << 32, -1 << 40} {
		for _, has := range []string{"f", "t"} {
			mine, other := conns[0], conns[1]
			if _, err := other.Exec(timely(t), "SELECT pg_advisory_lock_shared($1)", key); err != nil {
				t.Fatal(err)
			}
			if has == "t" { // as if it had been given, so that only the wait is in vain
				if _, err := mine.Exec(timely(t), "SELECT pg_advisory_lock_shared($1)", key); err != nil {
					t.Fatal(err)
				}
			}
			results, err := mine.PgConn().Exec(timely(t), errand(key, false, true)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			if got := string(results[len(results)-1].Rows[0][1]); got != has {
				t.Errorf("key %d: the wait has locked it: %s; want %s", key, got, has)
			}
			for _, conn := range conns {
				if _, err := conn.Exec(timely(t), "SELECT pg_advisory_unlock_all()"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
