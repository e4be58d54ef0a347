package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// A client that alone waits at a server is not in SLEEP, where a KILL may take 2 s.
func TestRingsForOneAlone(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	d := open(t, fresh(t, s))
	if !d.store.blocks {
		t.Log("without blocks, a text that is rung between its statements has no answer")
		return
	}
	rings, slow := beset(t, d, 300)
	t.Logf("%d rings, of which %d took over a second", rings, slow)
	if slow*200 > rings { // 1 in 40 without the anchor; a machine that stands still makes a few
		t.Errorf("%d of %d rings took over a second; want none", slow, rings)
	}
}

// Each berth can be come to and left, by no other way than is drawn.
func TestBerthMoves(t *testing.T) {
	t.Parallel()
	for from := follows; from <= anchored; from++ {
		for by := follows; by <= anchored; by++ {
			m, want := &mooring{at: from}, from
			if by == from {
				want = berthMoves[from]
			}
			if m.move(by); m.now() != want {
				t.Errorf("from %v by the way of %v it comes to %v, want %v", from, by, m.now(), want)
			}
		}
	}
}

// What the statement of a sleep answers means another thing in SLEEP than in a wait for a lock.
func TestAwakenings(t *testing.T) {
	t.Parallel()
	no, yes := sql.NullInt64{Valid: true}, sql.NullInt64{Int64: 1, Valid: true}
	for _, tt := range []struct {
		at     berth
		answer sql.NullInt64
		want   awakening
	}{
		{alone, no, slept},
		{alone, yes, rang},
		{follows, no, slept},
		{follows, yes, freed},
		{follows, sql.NullInt64{}, rang},
		{anchored, no, slept},
		{anchored, yes, freed},
		{anchored, sql.NullInt64{}, rang},
	} {
		if got := tt.at.ends(tt.answer); got != tt.want {
			t.Errorf("at berth %v the answer %v means %v, want %v", tt.at, tt.answer, got, tt.want)
		}
	}
}

// user returns the connection that has a user-level lock, 0 if none has.
func user(t *testing.T, db *sql.DB, lock string) (id int64) {
	t.Helper()
	if err := db.QueryRowContext(timely(t), "SELECT COALESCE(IS_USED_LOCK("+lock+"), 0)").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// Of clients that sleep at once none stays in SLEEP, whose mutex all share. That is so too when the connection ends
// that the first one waits for, when the first one ends, and when what it leaves behind ends later. Rings reach them
// all the time: each has heard its own.
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
	if got, want := user(t, admin, parked), user(t, admin, bellName(clients[0])); got != want {
		t.Errorf("%d is parked, want %d, which came first", got, want)
	}

	old := user(t, admin, anchor)
	mustExec(t, admin, "KILL IS_USED_LOCK("+anchor+")")
	until(t, "for another connection to have the anchor", func() bool {
		id := user(t, admin, anchor)
		return id != 0 && id != old && id != user(t, admin, bellName(clients[0]))
	})
	settled()

	stale, err := admin.Conn(timely(t)) // as if the server had not heard yet of the first one's end
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := stale.ExecContext(context.Background(), "DO GET_LOCK("+anchor+", 20)")
		got <- err
	}()
	first.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	clients = clients[1:]
	until(t, "for another client to be parked", func() bool { return user(t, admin, parked) != 0 })
	settled()
	mustClose(t, stale)
	until(t, "for another connection to have the anchor", func() bool {
		id := user(t, admin, anchor)
		return id != 0 && id != user(t, admin, parked)
	})
	settled()
	for _, client := range clients {
		if err := from.store.ring(timely(t), client); err != nil {
			t.Error(err)
		}
	}
}

func mustClose(t *testing.T, conn *sql.Conn) {
	t.Helper()
	drop(conn)
	_ = conn.Close()
}

// A pool that has no connection to spare for the anchor sleeps in SLEEP, and hears.
func TestPoolWithoutAnchor(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	url := fresh(t, s)
	_, waits, _ := listening(t, open(t, url+"&pool_max_conns=4"), open(t, url), rand.Text())
	if got := sleepsAt(t, s, waits.Client); got != "User sleep" {
		t.Errorf("it sleeps in %q, want SLEEP", got)
	}
}
