package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"
)

// For all events in any order: after each requested wakeup a KILL is sent, unless one fails, and no KILL is due when the
// last one has been answered.
func TestKillMoves(t *testing.T) {
	t.Parallel()
	var walk func(r killState, owed bool, events int)
	walk = func(from killState, owed bool, events int) {
		if owed && (from == quiet || from == killing) {
			t.Fatalf("at %v a wakeup is owed, which no KILL will do", from)
		}
		if !owed && (from == due || from == dueAgain) {
			t.Fatalf("at %v there is a KILL to come that no wakeup is for", from)
		}
		if events == 0 {
			return
		}
		for e := killAsked; e <= killFailed; e++ {
			if sends := from == due; e == killSent && !sends || e == killAnswered && (from == quiet || sends) {
				continue // impossible
			}
			r := &killStates{state: map[string]killState{"client": from}}
			isDue := r.move("client", e)
			to := r.state["client"]
			if isDue != (to == due && from != due) {
				t.Errorf("from %v by event %v to %v: it is said to have come to be due: %v", from, e, to, isDue)
			}
			owes := owed
			switch e {
			case killAsked:
				owes = true
			case killSent, killFailed:
				owes = false
			case killAnswered:
			}
			walk(to, owes, events-1)
		}
	}
	walk(quiet, false, 7)
}

// Several wakeups that cannot be sent yet, here for lack of a connection, become one.
func TestKillsAreMerged(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server, "pool_max_conns=1"))
	db, client := raw(t, server, ""), rand.Text()
	sleeper, err := db.Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	defer sleeper.Close()
	lies, err := d.store.db.Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sleeper.ExecContext(timely(t), "DO GET_LOCK("+wakeupLock(client)+", 0)"); err != nil {
		t.Fatal(err)
	}
	before := killsOf(t, lies)
	for range 100 {
		d.store.Wake([]string{client})
	}
	slept := make(chan error, 1)
	go func() {
		_, err := sleeper.ExecContext(context.Background(), "DO SLEEP(30)")
		slept <- err
	}()
	sleepsAt(t, server, client)
	lies.Close()
	if err := <-slept; number(err) != interrupted && err != nil {
		t.Errorf("the sleep ended with %v; want that it was interrupted", err)
	}
	until(t, "for no wakeup to be due", func() bool {
		d.store.kills.mu.Lock()
		defer d.store.kills.mu.Unlock()
		return len(d.store.kills.state) == 0
	})
	conn, err := d.store.db.Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := killsOf(t, conn) - before; got != 1 {
		t.Errorf("100 wakeups are %d statements, want 1", got)
	}
}

// killsOf returns the number of KILLs that a connection has sent.
func killsOf(t *testing.T, conn *sql.Conn) (n int) {
	t.Helper()
	var name string
	if err := conn.QueryRowContext(timely(t), "SHOW SESSION STATUS LIKE 'Com_kill'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
