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
	"github.com/stilelock/stile/internal/session"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A claim that waits in the server holds when the other has left, whether the lock is shared or exclusive.
func TestScout(t *testing.T) {
	t.Parallel()
	for _, weight := range []int64{1, driver.All} {
		one, two := client(t, at(home)), client(t, at(home))
		name := rand.Text()
		held, next := claim(name, rand.Text()), claim(name, rand.Text())
		next.Weight = weight
		enter(t, one, held, true)
		told := awaits(t, two, next)
		leave(t, one, held)
		if p := <-told; !p.Holds {
			t.Errorf("weight %d: the waiter was told %+v", weight, p)
		}
		reader := claim(name, rand.Text())
		reader.Weight = 1
		enter(t, one, reader, weight == 1) // the scout holds nothing
		leave(t, two, next)
	}
}

// A claim that enters again soon holds, though the scout has its key for a moment.
func TestEntersAgain(t *testing.T) {
	t.Parallel()
	application := "enters-again-" + rand.Text()
	one, two := client(t, at(home)), client(t, at(home, "application_name="+application))
	atOnce := 0
	for range 20 {
		held := claim(rand.Text(), rand.Text())
		next := claim(held.Name, rand.Text())
		enter(t, one, held, true)
		enter(t, two, next, false)
		servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
		leave(t, one, held)
		tries := 0
		servertest.Until(t, "the next holds", func() bool {
			tries++
			p, err := two.Enter(timely(t), next)
			if err != nil {
				t.Fatalf("enter = %v; want nil", err)
			}
			return p.Holds
		})
		if tries == 1 {
			atOnce++
		}
		leave(t, two, next)
	}
	if atOnce == 0 {
		t.Error("no claim holds by its first Enter")
	}
}

// The scout waits for the next key when no claim waits for the first any more, and no statement of it stays in the server.
func TestScoutIsRecalled(t *testing.T) {
	t.Parallel()
	const application = "recalled"
	one, two := client(t, at(home)), client(t, at(home, "application_name="+application))
	var held, next [2]*driver.Claim
	for i := range held {
		name := rand.Text()
		held[i], next[i] = claim(name, rand.Text()), claim(name, rand.Text())
		enter(t, one, held[i], true)
	}
	first, second := awaits(t, two, next[0]), awaits(t, two, next[1])
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

// If a scout's connection is killed, waiters poll, and the scout connects again.
func TestScoutIsKilled(t *testing.T) {
	t.Parallel()
	one, two := client(t, at(home)), client(t, at(home, "application_name=killed-scout"))
	name := rand.Text()
	held, next := claim(name, rand.Text()), claim(name, rand.Text())
	enter(t, one, held, true)
	told := awaits(t, two, next)
	servertest.Until(t, "the scout waits", func() bool { return inServer(t, "killed-scout") == 1 })
	kill(t, "killed-scout")
	servertest.Until(t, "the scout waits again", func() bool { return inServer(t, "killed-scout") == 1 })
	leave(t, one, held)
	if p := <-told; !p.Holds {
		t.Errorf("the waiter was told %+v", p)
	}
}

// A claim that leaves while its key may be free leaves nothing locked, and does not delay the next.
func TestLeavesWhileGranted(t *testing.T) {
	t.Parallel()
	const application = "leaves-while-granted"
	one, two := client(t, at(home)), client(t, at(home, "application_name="+application))
	for range 20 {
		name := rand.Text()
		held, next := claim(name, rand.Text()), claim(name, rand.Text())
		enter(t, one, held, true)
		enter(t, two, next, false)
		servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
		freed, ctx := make(chan error, 1), timely(t)
		go func() { freed <- one.Leave(ctx, &driver.Release{Claim: held}) }()
		leave(t, two, next)
		if err := <-freed; err != nil {
			t.Fatal(err)
		}
		third := claim(name, rand.Text())
		third.Try = true
		enter(t, one, third, true)
		leave(t, one, third)
	}
	servertest.Until(t, "nothing is locked", func() bool { return locks(t, application) == 0 })
}

// A client has all its locks on one connection, and waits on another, for any number of locks.
func TestTwoConnections(t *testing.T) {
	t.Parallel()
	application := "two-" + rand.Text()
	one, two := client(t, at(home)), client(t, at(home, "application_name="+application))
	var held, next []*driver.Claim
	var told []chan driver.Place
	for i := range 30 {
		name := rand.Text()
		held, next = append(held, claim(name, rand.Text())), append(next, claim(name, rand.Text()))
		enter(t, one, held[i], true)
		told = append(told, awaits(t, two, next[i]))
	}
	for i, c := range held {
		leave(t, one, c)
		if p := <-told[i]; !p.Holds {
			t.Fatalf("claim %d was told %+v", i, p)
		}
	}
	if n := locks(t, application); n != len(held) {
		t.Errorf("%d keys are locked; want %d", n, len(held))
	}
	if n := count(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application); n > 2 {
		t.Errorf("%d connections; want 2 at most", n)
	}
	for _, c := range next {
		leave(t, two, c)
	}
	if n := locks(t, application); n != 0 {
		t.Errorf("%d keys are still locked", n)
	}
}

// While clients wait, others create indexes concurrently, and VACUUM removes deleted rows: no wait delays them for long.
func TestWaitHoldsBackNobody(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t)
	lane := awake.Lane(t)
	one := client(t, at(s))
	for _, weight := range []int64{1, driver.All} {
		two := client(t, at(s, "application_name=waits"))
		held := claim(rand.Text(), rand.Text())
		next := claim(held.Name, rand.Text())
		next.Weight = weight
		enter(t, one, held, true)
		awaits(t, two, next)
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
		return n == 2
	}
	exec("CREATE TABLE work AS SELECT i FROM generate_series(1, 10000) i")
	servertest.Until(t, "both wait in the server", waiting)
	const bound = 2 * time.Second
	start := time.Now()
	exec("CREATE INDEX CONCURRENTLY work_i ON work (i)")
	lane.Within(time.Since(start), bound, "CREATE INDEX CONCURRENTLY")
	servertest.Until(t, "both wait in the server", waiting)
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

// A wait ends within a second, whether the key is free or not, and leaves nothing locked.
func TestWait(t *testing.T) {
	t.Parallel()
	lane := awake.Lane(t)
	a, err := driver.ParseAddress(at(home))
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.Open(timely(t), a)
	if err != nil {
		t.Fatal(err)
	}
	v := &server{link: l, timeout: time.Minute, key: Key}
	defer v.Close()
	var conns [2]session.Conn
	for i := range conns {
		if conns[i], err = v.Connect(timely(t)); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	for _, key := range []string{v.Key(rand.Text()), "-1", "4294967296", "-1099511627776"} {
		for _, shared := range []bool{false, true} {
			step := session.Step{Key: key}
			do := func(c session.Conn, want bool) {
				t.Helper()
				if done, _, err := c.Do(timely(t), []session.Step{step}); err != nil || done[0] != want {
					t.Errorf("key %s: %+v = %v, %v; want %v", key, step, done, err, want)
				}
			}
			do(conns[1], true)
			start := time.Now()
			if err := conns[0].Wait(timely(t), key, shared); err != nil {
				t.Errorf("key %s: a wait in vain = %v", key, err)
			}
			lane.Within(time.Since(start), time.Second, "a wait in vain")
			step.Free = true
			do(conns[1], true)
			if err := conns[0].Wait(timely(t), key, shared); err != nil {
				t.Errorf("key %s: a wait for a free key = %v", key, err)
			}
			do(conns[0], false)
		}
	}
}
