package postgres

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// counted makes a store whose server counts the rows that it reads.
func counted(t testing.TB) *drivertest.Work {
	t.Helper()
	url := fresh(server)
	d := open(t, url)
	schema, vacuum := d.tables.schema, d.tables.fill(`VACUUM ANALYZE "{schema}".{prefix}name, "{schema}".{prefix}claim, "{schema}".{prefix}meta`)
	d.Close()
	admin := connect(t, server)
	return &drivertest.Work{
		Open:   func() driver.Driver { return open(t, url) },
		Settle: func() { exec(t, admin, vacuum) }, // the server does it by itself too
		Done: func(calls int) int {
			var looks, rows int
			servertest.Until(t, "the server has counted what connections did that have ended", func() bool {
				err := admin.QueryRow(timely(t), `SELECT coalesce(sum(seq_scan + idx_scan), 0), coalesce(sum(seq_tup_read + idx_tup_fetch), 0)
FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN ('stile_name', 'stile_claim')`, schema).Scan(&looks, &rows)
				return err == nil && looks >= calls
			})
			return rows
		},
	}
}
