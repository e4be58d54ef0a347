package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// The only waiting client of a server is not in SLEEP, where a KILL may take 2 s.
func TestWakesForOneAlone(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	d := open(t, fresh(t, s))
	if !d.store.blocks {
		t.Log("without blocks, a text that is interrupted between its statements has no answer")
		return
	}
	kills, slow := beset(t, d, 300)
	t.Logf("%d wakeups, of which %d took over a second", kills, slow)
	if slow*200 > kills { // 1 in 40 without the second lock; a machine that stands still causes a few
		t.Errorf("%d of %d wakeups took over a second; want none", slow, kills)
	}
}

// Each place can be reached and left, only by the drawn transitions.
func TestSleepMoves(t *testing.T) {
	t.Parallel()
	for from := onParked; from <= onSecond; from++ {
		for by := onParked; by <= onSecond; by++ {
			m, want := &sleepLock{at: from}, from
			if by == from {
				want = sleepMoves[from]
			}
			if m.move(by); m.now() != want {
				t.Errorf("from %v by the way of %v it comes to %v, want %v", from, by, m.now(), want)
			}
		}
	}
}

// The same answer has one meaning in SLEEP, and another in a wait for a lock.
func TestAwakenings(t *testing.T) {
	t.Parallel()
	no, yes := sql.NullInt64{Valid: true}, sql.NullInt64{Int64: 1, Valid: true}
	for _, tt := range []struct {
		at     sleepPlace
		answer sql.NullInt64
		want   awakening
	}{
		{inSleep, no, slept},
		{inSleep, yes, wasWoken},
		{onParked, no, slept},
		{onParked, yes, freed},
		{onParked, sql.NullInt64{}, wasWoken},
		{onSecond, no, slept},
		{onSecond, yes, freed},
		{onSecond, sql.NullInt64{}, wasWoken},
	} {
		if got := tt.at.ends(tt.answer); got != tt.want {
			t.Errorf("at place %v the answer %v means %v, want %v", tt.at, tt.answer, got, tt.want)
		}
	}
}

// user returns the connection that has a user-level lock; 0 if none has.
func user(t *testing.T, db *sql.DB, lock string) (id int64) {
	t.Helper()
	if err := db.QueryRowContext(timely(t), "SELECT COALESCE(IS_USED_LOCK("+lock+"), 0)").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// Of several sleeping clients none stays in SLEEP, which all share, even if the connection ends for which the first one
// waits, the first one ends, or its second connection ends. Each client gets its own wakeups all the time.
func TestNobodyStaysInSleep(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	url := fresh(t, s)
	from, admin := open(t, url), raw(t, s, "")
	var clients []string
	listens := func() *Driver {
		d := open(t, url)
		_, waits, _ := listening(t, d, from, rand.Text())
		clients = append(clients, waits.Client)
		return d
	}
	first := listens()
	for range 3 {
		listens()
	}
	settled := func() {
		t.Helper()
		for _, client := range clients {
			until(t, "for nobody to be in SLEEP", func() bool { return sleepsAt(t, s, client) == "User lock" })
		}
	}
	settled()
	if got, want := user(t, admin, parkedLock), user(t, admin, wakeupLock(clients[0])); got != want {
		t.Errorf("%d has the parked lock, want %d, which came first", got, want)
	}

	old := user(t, admin, secondLock)
	mustExec(t, admin, "KILL IS_USED_LOCK("+secondLock+")")
	until(t, "for another connection to have the second lock", func() bool {
		id := user(t, admin, secondLock)
		return id != 0 && id != old && id != user(t, admin, wakeupLock(clients[0]))
	})
	settled()

	stale, err := admin.Conn(timely(t)) // as if the server had not noticed the end of the first one yet
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := stale.ExecContext(context.Background(), "DO GET_LOCK("+secondLock+", 20)")
		got <- err
	}()
	first.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	clients = clients[1:]
	until(t, "for another client to have the parked lock", func() bool { return user(t, admin, parkedLock) != 0 })
	settled()
	mustClose(t, stale)
	until(t, "for another connection to have the second lock", func() bool {
		id := user(t, admin, secondLock)
		return id != 0 && id != user(t, admin, parkedLock)
	})
	settled()
	for _, client := range clients {
		if err := from.store.wake(timely(t), client); err != nil {
			t.Error(err)
		}
	}
}

func mustClose(t *testing.T, conn *sql.Conn) {
	t.Helper()
	drop(conn)
	_ = conn.Close()
}

// A pool without a connection for the second lock uses SLEEP, and gets wakeups.
func TestPoolWithoutSecondLock(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	url := fresh(t, s)
	_, waits, _ := listening(t, open(t, url+"&pool_max_conns=4"), open(t, url), rand.Text())
	if got := sleepsAt(t, s, waits.Client); got != "User sleep" {
		t.Errorf("it sleeps in %q, want SLEEP", got)
	}
}
