package mysql

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The server's clock steps. Forward, leases end early, and their holders learn of this. Back, leases last longer. Tickets
// rise in any case.
//
// The test cannot set the host's clock. So it sets the server's time for each new session, where the time then stands still.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	name := database(t, s)
	db := raw(t, s, name)
	mustExec(t, db, "CREATE USER locks IDENTIFIED BY 'canary'; GRANT ALL ON "+name+".* TO locks")
	openAfter := func(by time.Duration) *Driver {
		mustExec(t, db, fmt.Sprintf("SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() + (%d)'",
			int(by.Seconds())))
		return open(t, "mysql://locks:canary@"+s.Addr+"/"+name)
	}
	a, b, c := claim("name", "a"), claim("name", "b"), claim("name", "c")
	before := openAfter(0)
	first := claim("name", "first")
	enter(t, before, first)
	leave(t, before, first)
	enter(t, before, a)
	forward := openAfter(2 * time.Minute)
	if p := enter(t, forward, b); !p.Holds || b.Ticket <= a.Ticket {
		t.Errorf("after a step forward the place is %+v; want it to hold with a ticket above %d", p, a.Ticket)
	}
	if err := renew(t, forward, a); !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal of the lease that was ended: %v; want ErrGone", err)
	}
	back := openAfter(-time.Hour)
	if err := renew(t, back, b); err != nil {
		t.Errorf("renewal after a step back: %v", err)
	}
	if p := enter(t, back, c); p.Holds || c.Ticket != b.Ticket+1 {
		t.Errorf("after a step back the place is %+v; want to wait with ticket %d", p, b.Ticket+1)
	}
	leave(t, back, b)
	leave(t, back, c)
	next := claim("name", "next")
	if p := enter(t, back, next); !p.Holds || next.Ticket != c.Ticket+1 {
		t.Errorf("alone after a step back the place is %+v; want to hold with ticket %d", p, c.Ticket+1)
	}
}

// The server's disk is full. A claim has certainly not entered, alone or behind others.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server))
	used, held := claim("name", "first"), claim("held", "a")
	enter(t, d, used)
	leave(t, d, used)
	enter(t, d, held)
	// The server's error when its disk is full.
	const full = "FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1021, MESSAGE_TEXT = 'Disk full'"
	mustExec(t, d.store.db, "CREATE TRIGGER t1 BEFORE INSERT ON stile_claim "+full)
	mustExec(t, d.store.db, "CREATE TRIGGER t2 BEFORE UPDATE ON stile_name "+full)
	for _, name := range []string{"name", "held", "new"} {
		_, err := d.Enter(timely(t), claim(name, "b"))
		says(t, err, "the server has no room", "Disk full")
		marks(t, err, true, true)
	}
	mustExec(t, d.store.db, "DROP TRIGGER t1; DROP TRIGGER t2")
	if err := renew(t, d, held); err != nil {
		t.Errorf("renewal when there is room again: %v", err)
	}
	if p := enter(t, d, claim("name", "b")); !p.Holds {
		t.Errorf("entering when there is room again = %+v; want to hold", p)
	}
}
