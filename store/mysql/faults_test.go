package mysql

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver"
)

// The server returns each fault of the table: by its real cause if a statement can cause it, otherwise by a signal with that
// number.
func TestFaults(t *testing.T) {
	t.Parallel()
	provoke := map[uint16]string{
		interrupted:    "KILL QUERY CONNECTION_ID()",
		noSuchDatabase: "USE nowhere",
		noSuchTable:    "SELECT * FROM nothing",
		readOnlyTx:     "START TRANSACTION READ ONLY; UPDATE stile_meta SET floor = floor",
	}
	s := open(t, fresh(t, server, "pool_max_conns=1")).store
	if maria(t, s.db) {
		provoke[killed] = "KILL CONNECTION_ID()"
		provoke[statementTime] = "SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(10)"
	} else {
		provoke[executionTime] = "SELECT /*+ MAX_EXECUTION_TIME(10) */ 1 FROM stile_meta WHERE SLEEP(10)"
	}
	for n, want := range faults {
		statement := provoke[n]
		if statement == "" {
			statement = fmt.Sprintf("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'made to'", n)
		}
		conn, err := s.acquire(timely(t))
		if err != nil {
			t.Fatal(err)
		}
		var before, after int64
		if err := conn.QueryRowContext(timely(t), "SELECT CONNECTION_ID()").Scan(&before); err != nil {
			t.Fatal(err)
		}
		_, err = conn.ExecContext(timely(t), statement)
		if number(err) != n {
			t.Errorf("%s says %v; want number %d", statement, err, n)
		}
		err = s.judged(timely(t), conn, err)
		_, _ = conn.ExecContext(timely(t), "ROLLBACK")
		conn.Close()
		if got := driver.OutcomeOf(err); got != want.outcome {
			t.Errorf("%d: %v is %v; want %v", n, err, got, want.outcome)
		}
		if got := driver.IsUnreachable(err); got == want.lasts {
			t.Errorf("%d: %v is for now: %v; want %v", n, err, got, !want.lasts)
		}
		if err := s.db.QueryRowContext(timely(t), "SELECT CONNECTION_ID()").Scan(&after); err != nil {
			t.Fatal(err)
		}
		if dropped := before != after; dropped != want.drop {
			t.Errorf("%d: %v: the connection is dropped: %v; want %v", n, err, dropped, want.drop)
		}
	}
}

// A proxy's error for a lost connection is no refusal: the claim may be in the store.
func TestProxyLosesServer(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2013, 2027, 2055, 9002} {
		unknownAfter(t, n, "Lost connection to MySQL server during query")
	}
}

// unknownAfter makes an Enter fail with an error of the server, and checks that the outcome is unknown.
func unknownAfter(t *testing.T, number int, text string) {
	t.Helper()
	d := open(t, fresh(t, server))
	enter(t, d, claim("name", "a"))
	mustExec(t, d.store.db, fmt.Sprintf("CREATE TRIGGER failing AFTER UPDATE ON stile_name FOR EACH ROW SIGNAL SQLSTATE '45000' "+
		"SET MYSQL_ERRNO = %d, MESSAGE_TEXT = '%s'", number, text))
	_, err := d.Enter(timely(t), claim("name", "b"))
	marks(t, err, false, true)
}

// A server that cannot write its binary log reports this during the commit. The log may have the transaction, and a restart
// commits the transactions in the log.
func TestServerLosesItsLog(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1026, 1598} {
		unknownAfter(t, n, "An error occurred during sync stage of the commit")
	}
}
