package mysql

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

const unknownVariable = 1193

// counted makes a store whose server counts the rows that it reads.
func counted(t testing.TB) *drivertest.Work {
	t.Helper()
	name := database(t, server)
	db := raw(t, server, name)
	rowsRead := `SELECT coalesce(sum(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS
WHERE TABLE_SCHEMA = ? AND TABLE_NAME IN ('stile_name', 'stile_claim')`
	if _, err := db.ExecContext(timely(t), "SET GLOBAL userstat = 1"); number(err) == unknownVariable { // MySQL has none
		rowsRead = `SELECT coalesce(sum(COUNT_FETCH), 0) FROM performance_schema.table_io_waits_summary_by_table
WHERE OBJECT_SCHEMA = ? AND OBJECT_NAME IN ('stile_name', 'stile_claim')`
	} else if err != nil {
		t.Fatal(err)
	}
	return &drivertest.Work{
		Open:   func() driver.Driver { return open(t, "mysql://root@"+server.Addr+"/"+name) },
		Settle: func() { mustExec(t, db, "ANALYZE TABLE stile_name, stile_claim") }, // the server does it by itself too
		Done: func(int) (rows int) {
			err := db.QueryRowContext(timely(t), rowsRead, name).Scan(&rows)
			if err != nil || rows == 0 {
				t.Fatalf("the server has counted %d rows: %v", rows, err)
			}
			return rows
		},
	}
}
