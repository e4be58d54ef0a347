package mysql

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
)

// counted makes a store whose server counts the rows that it reads.
func counted(t testing.TB) *drivertest.Work {
	t.Helper()
	name := database(t, server)
	db := raw(t, server, name)
	mustExec(t, db, "SET GLOBAL userstat = 1")
	return &drivertest.Work{
		Open:   func() driver.Driver { return open(t, "mysql://root@"+server.Addr+"/"+name) },
		Settle: func() { mustExec(t, db, "ANALYZE TABLE stile_name, stile_claim") }, // as the server does by itself
		Done: func(int) (rows int) {
			err := db.QueryRowContext(timely(t), `SELECT coalesce(sum(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS
WHERE TABLE_SCHEMA = ? AND TABLE_NAME IN ('stile_name', 'stile_claim')`, name).Scan(&rows)
			if err != nil || rows == 0 {
				t.Fatalf("the server has counted %d rows: %v", rows, err)
			}
			return rows
		},
	}
}
