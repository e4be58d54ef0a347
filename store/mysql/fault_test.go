package mysql

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// durable are the settings of a server that loses no data when it is killed.
var durable = []string{"innodb_flush_log_at_trx_commit=1"}

// The server is killed while one claim holds and one waits, and comes back with both.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t, durable...)
	url := fresh(t, s)
	one, two := open(t, url), open(t, url)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, one, a)
	enter(t, two, b)
	woken := make(chan error, 1)
	go func() {
		p, err := two.Await(context.Background(), b)
		if err == nil && !p.Holds {
			err = fmt.Errorf("the waiter is told %+v", p)
		}
		woken <- err
	}()
	s.Kill()
	c := claim("other", "c")
	_, err := one.Enter(timely(t), c)
	says(t, err, "the connection to "+s.Addr+" failed", "refused")
	marks(t, err, true, true)
	marks(t, renew(t, one, a), true, true)

	s.Restart()
	if err := renew(t, one, a); err != nil {
		t.Errorf("renewal after the restart = %v; want nil", err)
	}
	leave(t, one, a)
	if err := <-woken; err != nil {
		t.Errorf("who waited through the restart: %v", err)
	}
}

// An administrator ends all connections of the driver. The claims stay: they are in tables, not in connections.
func TestConnectionsKilled(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	d, db := open(t, "mysql://root@"+server.Addr+"/"+name), raw(t, server, "")
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	kill := func() (n int) {
		var ids sql.NullString
		row := db.QueryRowContext(timely(t),
			"SELECT GROUP_CONCAT(ID) FROM information_schema.PROCESSLIST WHERE DB = ?", name)
		if err := row.Scan(&ids); err != nil {
			t.Fatal(err)
		}
		for id := range strings.SplitSeq(ids.String, ",") {
			if _, err := db.ExecContext(timely(t), "KILL "+id); err == nil {
				n++
			}
		}
		return n
	}
	woken := make(chan error, 1)
	go func() {
		p, err := d.Await(timely(t), b)
		if err == nil && !p.Holds {
			err = fmt.Errorf("the waiter is told %+v", p)
		}
		woken <- err
	}()
	for range 5 {
		if kill() == 0 {
			t.Error("there is no connection to kill")
		}
		if err := renew(t, d, a); err != nil {
			t.Errorf("renewal = %v; want nil", err)
		}
	}
	leave(t, d, a)
	if err := <-woken; err != nil {
		t.Error(err)
	}
}

var kills = flag.Int("kills", 12, "how often the server is killed while claims enter")

// The server is killed again and again while claims enter. Every answered claim is still there, and no ticket is given
// twice.
func TestKilledWhileEntering(t *testing.T) {
	for name, workers := range map[string]int{"a queue": 4, "alone": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killWhileEntering(t, workers)
		})
	}
}

func killWhileEntering(t *testing.T, workers int) {
	s := servertest.MySQL(t, durable...)
	d := open(t, fresh(t, s))
	var (
		mu      sync.Mutex
		tickets = map[int64]string{}
		highest int64
		last    *driver.Claim // the last answered claim
	)
	for round := range *kills {
		floor, enough := highest, len(tickets)+1+rand.IntN(40)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
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
						t.Errorf("ticket %d of %s was given to %q, and %d before the server was killed",
							p.Ticket, c.ID, was, floor)
					}
					tickets[p.Ticket], highest, last = c.ID, max(highest, p.Ticket), c
					mu.Unlock()
					if i%3 == 0 || workers == 1 {
						if err := d.Leave(ctx, &driver.Release{Claim: c}); err != nil {
							return
						}
					}
				}
			})
		}
		servertest.Until(t, "claims enter", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(tickets) >= enough
		})
		s.Kill()
		cancel()
		all.Wait()
		s.Restart()
		list, err := d.List(timely(t), &driver.Query{Name: "name"})
		if err != nil {
			t.Fatalf("list = %v", err)
		}
		if err := renew(t, d, last); err != nil && !errors.Is(err, driver.ErrGone) {
			t.Errorf("renewal after round %d = %v", round, err)
		}
		for _, l := range list { // none, if all that entered have left
			for _, c := range l.Claims {
				highest = max(highest, c.Ticket)
				if _, err := d.Break(timely(t), &driver.BreakRequest{Name: l.Name, Ticket: c.Ticket}); err != nil {
					t.Errorf("break of ticket %d = %v", c.Ticket, err)
				}
			}
		}
	}
}

// The answer to a commit is lost: the outcome is unknown, and a second try finds the result of the first.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	proxy := servertest.NewProxy(t, server.Addr)
	d, direct := open(t, "mysql://root@"+proxy.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
	db := raw(t, server, name)
	open := closes(t, db, "BEFORE INSERT ON stile_claim") // the second round trip
	a := claim("name", "a")
	entered := make(chan error, 1)
	go func() {
		_, err := d.Enter(timely(t), a)
		entered <- err
	}()
	atGate(t, db)
	proxy.Freeze(false, true)
	open()
	var ticket int64
	servertest.Until(t, "the claim is there", func() bool {
		list, err := direct.List(timely(t), &driver.Query{Name: "name"})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			ticket = list[0].Claims[0].Ticket
		}
		return len(list) == 1
	})
	proxy.Cut()
	err := <-entered
	says(t, err, "the connection to "+proxy.Addr+" failed")
	marks(t, err, false, true)
	proxy.Mend()
	mustExec(t, db, "DROP TRIGGER gate")
	if p := enter(t, d, a); p.Ticket != ticket || !p.Holds {
		t.Errorf("entering again = %+v; want ticket %d, which holds", p, ticket)
	}

	// The connection is lost before the commit was sent: then it is tried again.
	tx := begin(t, db, sql.LevelReadCommitted)
	if _, err := tx.ExecContext(timely(t), "SELECT * FROM stile_name FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	go func() { entered <- renew(t, d, a) }()
	waiting(t, db)
	proxy.Drop()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-entered; err != nil {
		t.Errorf("renewal whose connection was lost before it was sent = %v; want nil", err)
	}
}

// closes makes statements wait that change a table in some way, until the returned function is called.
func closes(t *testing.T, db *sql.DB, when string) (open func()) {
	t.Helper()
	var name string
	if err := db.QueryRowContext(timely(t), "SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ask := func(what string) {
		t.Helper()
		var got sql.NullInt64
		if err := conn.QueryRowContext(timely(t), "SELECT "+what).Scan(&got); err != nil || got.Int64 != 1 {
			t.Fatalf("%s = %v, %v; want 1", what, got, err)
		}
	}
	ask("GET_LOCK('" + name + "', 0)")
	mustExec(t, db, "CREATE TRIGGER gate "+when+" FOR EACH ROW DO GET_LOCK('"+name+"', 60)")
	return func() { ask("RELEASE_LOCK('" + name + "')") }
}

// atGate waits until a statement of the database waits for a function of [closes].
func atGate(t *testing.T, db *sql.DB) {
	t.Helper()
	waits := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE = 'User lock'"
	if !maria(t, db) {
		waits = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_DB = DATABASE() AND PROCESSLIST_STATE = 'User lock'"
	}
	servertest.Until(t, "a statement waits at the gate", func() bool {
		var n int
		if err := db.QueryRowContext(timely(t), waits).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// A client stands still in the middle of a transaction, with the row of the name. The server ends the transaction, and
// others go on.
func TestClientStandsStill(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	db := raw(t, server, name)
	way := servertest.NewStall(t, server.Addr)
	still, other := open(t, "mysql://root@"+way.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, other, a)
	enter(t, still, b) // so that there is a queue, which a verb reads before it writes
	way.After(1)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _, _ = still.Enter(ctx, b) })
	servertest.Until(t, "the client stands still", way.Still)
	servertest.Until(t, "the client has the row", func() bool {
		_, err := db.ExecContext(timely(t), "SELECT 1 FROM stile_name FOR UPDATE NOWAIT")
		if n := number(err); err != nil && n != lockWait && n != 3572 { // 3572: MySQL's NOWAIT
			t.Fatal(err)
		}
		return err != nil
	})
	renewed := make(chan error, 1)
	go func() { renewed <- renew(t, other, a) }()
	waiting(t, db) // for the row, which the other has locked
	if !way.Still() {
		t.Error("the server has given the client up before somebody waits for it")
	}
	if !maria(t, db) {
		way.Pass() // MySQL gives a client up only after half a minute
	}
	if err := <-renewed; err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	if way.Still() {
		t.Error("the renewal came before the server has given the client up")
	}
	cancel()
	way.Pass()
	all.Wait()
}

// The server accepts no more writes, like a demoted one, and accepts them again later.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	name := database(t, s)
	db := raw(t, s, name)
	mustExec(t, db, "CREATE USER locks IDENTIFIED BY 'canary'; GRANT ALL ON "+name+".* TO locks")
	url := "mysql://locks:canary@" + s.Addr + "/" + name
	d := open(t, url)
	a := claim("name", "a")
	enter(t, d, a)
	mustExec(t, db, "SET GLOBAL read_only = ON")
	_, err := d.Enter(timely(t), claim("name", "b"))
	says(t, err, "the server accepts no writes", "read-only")
	marks(t, err, true, true)
	marks(t, renew(t, d, a), true, true)
	marks(t, refuses(t, url, "read-only", "primary"), true, false)
	_, err = d.Identity(timely(t))
	says(t, err, "the server accepts no writes", "read-only")
	marks(t, err, true, true)
	mustExec(t, db, "SET GLOBAL read_only = OFF")
	identityOf(t, d)
	if err := renew(t, d, a); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
}

// The server ends statements that take too long, here while they wait for the row of the name. MySQL ends only statements
// that read.
func TestStatementLimit(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	db := raw(t, server, name)
	limit, variable := "max_statement_time=3", "max_statement_time" // other statements take less, even on a busy machine
	if !maria(t, db) {
		limit, variable = "max_execution_time=3000", "maximum statement execution time exceeded"
	}
	open(t, "mysql://root@"+server.Addr+"/"+name).Close() // it makes the tables
	pool, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+name+"?multiStatements=true&"+limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	d, err := New(timely(t), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	a := claim("name", "a")
	enter(t, d, a)
	tx := begin(t, db, sql.LevelReadCommitted)
	if _, err := tx.ExecContext(timely(t), "SELECT * FROM stile_name FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if maria(t, db) {
		_, err := d.Enter(timely(t), claim("name", "b")) // by one statement, of which that could be said after its commit
		says(t, err, "the server's limit for a statement", variable)
		marks(t, err, false, true)
	}
	err = renew(t, d, a)
	says(t, err, "the server's limit for a statement", variable)
	marks(t, err, true, true)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	enter(t, d, claim("name", "b"))
}

func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	db := raw(t, server, database(t, server))
	d, err := New(timely(t), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	db.SetMaxOpenConns(2)
	for range 2 {
		conn, err := db.Conn(timely(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	_, err = d.Enter(timely(t), claim("name", "a"))
	const use = "all 2 connections of the pool were in use for "
	says(t, err, use)
	marks(t, err, true, true)
	_, after, _ := strings.Cut(err.Error(), use)
	word, _, _ := strings.Cut(after, ":")
	if waited, err := time.ParseDuration(word); err != nil || waited < connectWithin || waited > 2*connectWithin {
		t.Errorf("the error says %q; want that it waited for %v", word, connectWithin)
	}
}

// Somebody empties or drops tables. Leases are lost, and tickets still rise.
func TestTablesEmptied(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, do string
		want     error  // of a renewal
		says     string // the error of entering after that; "" if none
	}{
		{"claims", "TRUNCATE stile_claim", driver.ErrGone, ""},
		{"names", "TRUNCATE stile_name", driver.ErrGone, ""},
		{"both", "TRUNCATE stile_name; TRUNCATE stile_claim", driver.ErrGone, ""},
		{"the version, with names", "TRUNCATE stile_meta", nil, ""},
		{"all", "TRUNCATE stile_name; TRUNCATE stile_claim; TRUNCATE stile_meta", driver.ErrGone, "stile_meta"},
		{"dropped", "DROP TABLE stile_claim", driver.ErrGone, "is not there"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := database(t, server)
			d, db := open(t, "mysql://root@"+server.Addr+"/"+name), raw(t, server, name)
			a := claim("name", "a")
			before := enter(t, d, a).Ticket
			mustExec(t, db, tt.do)
			if err := renew(t, d, a); !errors.Is(err, tt.want) {
				t.Errorf("renewal = %v; want %v", err, tt.want)
			}
			p, err := d.Enter(timely(t), claim("name", "b"))
			if tt.says != "" {
				says(t, err, tt.says)
				if !driver.NotApplied(err) {
					t.Errorf("%v is not a definite error", err)
				}
				return
			}
			if err != nil || p.Ticket <= before {
				t.Errorf("entering = %+v, %v; want a ticket above %d", p, err, before)
			}
		})
	}
}

// The server's own collations treat these names as one; the driver keeps them apart.
func TestNamesApart(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server))
	names := []string{
		"Foo", "foo", "FOO", "Foo ", " Foo", "é", "e", "e\u0301", "ß", "ss", "ı", "i", "İ", "😀", "😁",
		"a'b", `a\b`, "a`b", `a"b`, "a%b", "a_b", "a;b", "--", strings.Repeat("x", 255),
	}
	for i, name := range names {
		if p := enter(t, d, claim(name, fmt.Sprint(i))); !p.Holds {
			t.Errorf("%q is held by another name's claim", name)
		}
	}
	list, err := d.List(timely(t), &driver.Query{})
	if err != nil || len(list) != len(names) {
		t.Errorf("list has %d names, %v; want %d", len(list), err, len(names))
	}
	for i := range list[1:] {
		if list[i].Name >= list[i+1].Name {
			t.Errorf("%q is listed before %q", list[i].Name, list[i+1].Name)
		}
	}
	for prefix, want := range map[string]int{"F": 3, "f": 1, "e": 2, "Foo": 2, "a%": 1, "😀": 1} {
		if list, err := d.List(timely(t), &driver.Query{Prefix: prefix}); err != nil || len(list) != want {
			t.Errorf("list of %q has %d names, %v; want %d", prefix, len(list), err, want)
		}
	}
}

// Two transactions wait for each other, and the server ends the driver's. It is done again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	d, db := open(t, "mysql://root@"+server.Addr+"/"+name), raw(t, server, name)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b) // so that both are rows of their own
	k := keyOf("name").String()
	mustExec(t, db, "CREATE TABLE heavy (id INT PRIMARY KEY) ENGINE = InnoDB")
	before := deadlocks(t, db)
	tx := begin(t, db, sql.LevelReadCommitted)
	for _, text := range []string{
		// The server ends the transaction that has done less.
		"INSERT INTO heavy WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s",
		"SELECT * FROM stile_claim WHERE `hash` = " + k + " FOR UPDATE", // which the driver writes after it has the name
	} {
		if _, err := tx.ExecContext(timely(t), text); err != nil {
			t.Fatal(err)
		}
	}
	renewed := make(chan error, 1)
	go func() { renewed <- renew(t, d, a) }()
	waiting(t, db)
	if _, err := tx.ExecContext(timely(t), "SELECT * FROM stile_name WHERE `hash` = "+k+" FOR UPDATE"); err != nil {
		t.Fatalf("the other transaction was ended: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-renewed; err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	if after := deadlocks(t, db); after == before {
		t.Error("there was no deadlock")
	}
}

func deadlocks(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	const count = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
	if err := db.QueryRowContext(timely(t), count).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Another holds the row of the name for longer than the server lets a transaction wait.
func TestLockWait(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	db := raw(t, server, name)
	pool, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+name+"?innodb_lock_wait_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	d, err := New(timely(t), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	enter(t, d, claim("name", "a"))
	tx := begin(t, db, sql.LevelReadCommitted)
	if _, err := tx.ExecContext(timely(t), "SELECT * FROM stile_name FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	entered := make(chan error, 1)
	go func() {
		_, err := d.Enter(timely(t), claim("name", "b"))
		entered <- err
	}()
	if _, err := tx.ExecContext(timely(t), "DO SLEEP(1.6)"); err != nil { // so that it is waiting for the second time
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-entered; err != nil {
		t.Errorf("entering after a wait that was too long = %v; want nil", err)
	}
}
