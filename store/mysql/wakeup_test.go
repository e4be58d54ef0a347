package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/sqldb"
)

// until waits until ok returns true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := timely(t)
	for tick := time.Tick(time.Millisecond); !ok(); <-tick {
		if ctx.Err() != nil {
			t.Fatalf("still waiting: %s", what)
		}
	}
}

// Each state is drawn, can be reached, and can be left.
func TestWakeupMoves(t *testing.T) {
	reached := map[hearing]bool{absent: true}
	for from, moves := range wakeupMoves {
		for event, to := range moves {
			b := &wakeups{state: from}
			if b.move(event); b.state != to {
				t.Errorf("%v at event %v went to %v, want %v", from, event, b.state, to)
			}
			reached[to] = true
		}
	}
	if got, want := len(reached), len(wakeupMoves); got != want {
		t.Errorf("%d states can be come to, want %d: %v", got, want, slices.Collect(maps.Keys(reached)))
	}
	b := &wakeups{}
	if b.move(wakeupCame); b.state != absent {
		t.Errorf("a wakeup that nobody listens for led to %v", b.state)
	}
}

// listening makes one client wait in the server for a lock of another. Its own wakeup has arrived.
func listening(t *testing.T, to, from *Driver, toClient string) (held, waits *driver.Claim, told chan driver.Place) {
	t.Helper()
	name := rand.Text()
	held, waits = claim(name, rand.Text()), claim(name, rand.Text())
	held.Client, waits.Client = "from", toClient
	enter(t, from, held)
	enter(t, to, waits)
	told = make(chan driver.Place, 1)
	ctx := timely(t)
	go func() {
		defer close(told)
		if p, err := to.Await(ctx, waits); err == nil {
			told <- p
		}
	}()
	until(t, "to hear the client's own wakeup", to.store.wakeups.heard)
	return held, waits, told
}

// sleeps waits until a client sleeps in the server, where wakeups reach it. A wakeup between two sleeps is lost.
func sleeps(t testing.TB, client string) { sleepsAt(t, server, client) }

func sleepsAt(t testing.TB, s *servertest.Server, client string) (state string) {
	t.Helper()
	db := raw(t, s, "")
	defer db.Close()
	q := "SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = "
	if !maria(t, db) {
		q = "SELECT PROCESSLIST_STATE FROM performance_schema.threads WHERE PROCESSLIST_ID = "
	}
	until(t, "for the client to sleep", func() bool {
		var got sql.NullString
		err := db.QueryRowContext(timely(t), q+"IS_USED_LOCK("+wakeupLock(client)+")").Scan(&got)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
		state = got.String
		return state == "User sleep" || state == "User lock"
	})
	return state
}

// A release wakes the next client.
func TestWake(t *testing.T) {
	url := fresh(t, server)
	from, to := open(t, url), open(t, url)
	held, waits, told := listening(t, to, from, rand.Text())
	sleeps(t, waits.Client)
	released := time.Now()
	leave(t, from, held)
	if p := <-told; !p.Holds {
		t.Fatalf("the waiter was told %+v", p)
	}
	until(t, "for the other's wakeup", func() bool { return lastWakeup(to).After(released) })
	leave(t, to, waits)
}

// A client's own wakeup before its sleep is lost, and is repeated.
func TestOwnWakeComesAgain(t *testing.T) {
	d, client := open(t, fresh(t, server)), rand.Text()
	conn, err := d.store.db.Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer drop(conn)
	var got sql.NullInt64
	if err := conn.QueryRowContext(timely(t), "SELECT GET_LOCK("+wakeupLock(client)+", 0)").Scan(&got); err != nil || got.Int64 != 1 {
		t.Fatalf("GET_LOCK = %v, %v; want 1", got.Int64, err)
	}
	kills := func() (n int) {
		var name string
		if err := d.store.db.QueryRowContext(timely(t), "SHOW GLOBAL STATUS LIKE 'Com_kill'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := kills()
	unheard, heard := context.WithCancel(timely(t))
	defer heard()
	d.store.life.Go(func() { d.store.wakeSelf(unheard, unheard, client) })
	until(t, "for the first wakeup", func() bool { return kills() > before })
	if end, err := d.store.sleep(timely(t), conn, inSleep, func() {}, func() {}); end != wasWoken || err != nil {
		t.Errorf("a sleep that begins after the first wakeup: it ends by %v, %v; want that another wakeup ends it", end, err)
	}
}

func lastWakeup(d *Driver) time.Time {
	d.store.wakeups.mu.Lock()
	defer d.store.wakeups.mu.Unlock()
	return d.store.wakeups.last
}

// A lost wakeup delays a waiter by a poll, and from then on it polls as if there were no wakeups.
func TestWakeLost(t *testing.T) {
	url := fresh(t, server)
	from, to := open(t, url), open(t, url)
	held, waits, told := listening(t, to, from, rand.Text())
	until(t, "for the wakeup to be long ago", func() bool { return time.Since(lastWakeup(to)) > 2*pollWoken })
	// An older client releases: it changes the queue, and sends no wakeup.
	mustExec(t, from.store.db, from.store.place.fill("UPDATE `{prefix}claim` SET `told` = 1 WHERE `id` = '"+waits.ID+"'"))
	if p := <-told; !p.Holds {
		t.Fatalf("the waiter was told %+v", p)
	}
	if to.store.wakeups.heard() {
		t.Error("a client that missed a wakeup is still relied on")
	}
	if got := to.store.Pause(0, 0); got != pollSoon {
		t.Errorf("the pause is %v, want %v", got, pollSoon)
	}
	leave(t, from, held)
}

// Closing a driver ends its sleep in the server.
func TestWakeupsEnd(t *testing.T) {
	url := fresh(t, server)
	from, to := open(t, url), open(t, url)
	client := rand.Text()
	held, _, told := listening(t, to, from, client)
	to.Close()
	for range told {
	}
	var holder sql.NullInt64
	db := raw(t, server, "")
	until(t, "for the lock for wakeups to be free", func() bool {
		if err := db.QueryRowContext(t.Context(), "SELECT IS_USED_LOCK("+wakeupLock(client)+")").Scan(&holder); err != nil {
			t.Fatal(err)
		}
		return !holder.Valid
	})
	leave(t, from, held)
}

// A wakeup between two sleeps is lost, and its change is seen before the next sleep.
func TestWakeBetweenSleeps(t *testing.T) {
	url := fresh(t, server)
	from, to := open(t, url), open(t, url)
	name := rand.Text()
	held, waits := claim(name, rand.Text()), claim(name, rand.Text())
	held.Client, waits.Client = "from", rand.Text()
	enter(t, from, held)
	enter(t, to, waits)
	glance := &sqldb.PollRequest{Claims: []sqldb.Waiting{{Name: name, ID: waits.ID, Ticket: waits.Ticket}}}
	if _, err := to.store.Poll(timely(t), glance); err != nil {
		t.Fatal(err)
	}
	woken := make(chan driver.Entry, 1)
	to.store.woke = func(entries ...driver.Entry) {
		for _, e := range entries {
			woken <- e
		}
	}
	ctx, cancel := context.WithCancel(timely(t))
	ended := make(chan struct{})
	slept := 0
	between := func() bool {
		if slept++; slept == 2 { // the client's own wakeup ended the first sleep
			leave(t, from, held)
			if err := from.store.wake(ctx, waits.Client); err != nil {
				t.Error(err)
			}
		}
		return true
	}
	go func() {
		defer close(ended)
		_ = to.store.listen(ctx, waits.Client, between, func() {}, func() {})
	}()
	select {
	case e := <-woken:
		if e.ID != waits.ID || e.Ticket != waits.Ticket {
			t.Errorf("woken: %+v, want ticket %d of %s", e, waits.Ticket, waits.ID)
		}
	case <-ctx.Done():
		t.Error("a claim that holds is not told, since the wakeup for it came between two sleeps")
	}
	cancel()
	<-ended
	leave(t, to, waits)
}

// Claims that were not read before a sleep begins are read when it has begun.
func TestSleepHasTheRestLookedAt(t *testing.T) {
	d, client := open(t, fresh(t, server)), rand.Text()
	ctx, cancel := context.WithCancel(timely(t))
	defer cancel()
	woken := false
	err := d.store.listen(ctx, client, func() bool { return !woken }, func() { woken = true; cancel() }, func() {})
	if !woken {
		t.Errorf("listen ended before it had anybody look: %v", err)
	}
}

// A small pool has no connection for wakeups, and its waiters poll.
func TestWakeupsInSmallPool(t *testing.T) {
	url := fresh(t, server)
	from, to := open(t, url), open(t, url+"&pool_max_conns=2")
	name := rand.Text()
	held, waits := claim(name, rand.Text()), claim(name, rand.Text())
	held.Client, waits.Client = "from", "to"
	enter(t, from, held)
	enter(t, to, waits)
	told := make(chan driver.Place, 1)
	go func() { p, _ := to.Await(t.Context(), waits); told <- p }()
	leave(t, from, held)
	if p := <-told; !p.Holds {
		t.Fatalf("the waiter was told %+v", p)
	}
	if to.store.wakeups.state != absent {
		t.Errorf("the state is %v, want %v", to.store.wakeups.state, absent)
	}
}

// A user needs no right to end its own statements.
func TestWakeupsNeedNoRights(t *testing.T) {
	s := servertest.MySQL(t)
	root := open(t, fresh(t, s))
	var name string
	if err := root.store.db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	db := raw(t, s, name)
	mustExec(t, db, "CREATE USER locks@'%' IDENTIFIED BY 'secret'")
	mustExec(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO locks@'%'")
	url := "mysql://locks:secret@" + s.Addr + "/" + name
	listening(t, open(t, url), open(t, url), rand.Text())
}
