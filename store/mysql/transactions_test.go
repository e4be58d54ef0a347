package mysql

import (
	"database/sql"
	"maps"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

// snapshot follows the name of a level at which the server has snapshot isolation, as MariaDB has by default from 11.8 on.
const snapshot = ", snapshot"

// A statement that runs for 50 ms counts as waiting for a row: the server updates its own list of waits only if nobody has
// read it for a while.
//
// transactions returns the LockTx of each isolation level, and with snapshot isolation if the server has it.
func transactions(t testing.TB) *drivertest.Transactions {
	name := database(t, server)
	tidied(t, open(t, "mysql://root@"+server.Addr+"/"+name))
	long := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %d AND COMMAND = 'Query' AND TIME_MS > 50"
	if !maria(t, raw(t, server, "")) {
		long = "SELECT COUNT(*) FROM performance_schema.threads JOIN performance_schema.events_statements_current USING (THREAD_ID) " +
			"WHERE PROCESSLIST_ID = %d AND PROCESSLIST_COMMAND = 'Query' AND END_EVENT_ID IS NULL AND TIMER_WAIT > 50 * 1000000000" // ps
	}
	database := func(parameters string) *drive.Database {
		db, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+name+parameters)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return &drive.Database{
			DB: db, Locks: LockTx,
			Me:    "SELECT CONNECTION_ID()",
			Waits: long,
			Kill:  "KILL %d",
		}
	}
	levels := map[string]sql.IsolationLevel{
		"read committed": sql.LevelReadCommitted, "repeatable read": sql.LevelRepeatableRead, "serializable": sql.LevelSerializable,
	}
	reads := map[string]drivertest.Reads{
		"read committed": drivertest.ReadsLatest, "repeatable read": drivertest.ReadsSnapshot, "serializable": drivertest.ReadsLocked,
	}
	plain := database("")
	if maria(t, plain.DB) {
		plain = database("?innodb_snapshot_isolation=OFF")
		for level, read := range maps.Clone(reads) {
			if read == drivertest.ReadsLocked {
				read = drivertest.ReadsAtBegin
			}
			reads[level+snapshot] = read
		}
	}
	snapshots := database("?innodb_snapshot_isolation=ON")
	plain.Number(t)
	return &drivertest.Transactions{
		Levels: reads,
		Stale:  ErrStale,
		Begin: func(level string) (drivertest.Transaction, error) {
			if bare, is := strings.CutSuffix(level, snapshot); is {
				return snapshots.Begin(t, levels[bare])
			}
			return plain.Begin(t, levels[level])
		},
	}
}
