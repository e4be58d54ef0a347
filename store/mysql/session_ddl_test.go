package mysql

import (
	"crypto/rand"
	"testing"
)

// No waiter, in a session or in tables, holds a snapshot or the metadata of a table: statements that need a table
// exclusively go on.
func TestWaitersHoldNothing(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	url := "mysql://root@" + server.Addr + "/" + name
	d, s := open(t, url), openSessionAt(t, url+"?mode=session")
	lock := rand.Text()
	mustEnter(t, s, claim(lock, rand.Text()), true)
	mustEnter(t, s, claim(lock, rand.Text()), false)
	mustEnter(t, d, claim(lock, rand.Text()), true)
	waits := claim(lock, rand.Text())
	waits.Ticket = mustEnter(t, d, waits, false).Ticket
	told := make(chan error, 1)
	go func() { _, err := d.Await(timely(t), waits); told <- err }()
	sleeps(t, waits.Client)
	db := raw(t, server, name)
	mustExec(t, db, "CREATE TABLE big (id INT PRIMARY KEY) ENGINE = InnoDB")
	for _, statement := range []string{
		"ALTER TABLE big ADD COLUMN x INT", "OPTIMIZE TABLE big", "CREATE INDEX big_x ON big (x)", "ALTER TABLE stile_claim COMMENT 'x'", "OPTIMIZE TABLE stile_claim, stile_name",
	} {
		mustExec(t, db, "SET lock_wait_timeout = 2; "+statement)
	}
	d.Close()
	if err := <-told; err == nil {
		t.Error("a waiter's call ended without an error when its client was closed")
	}
}
