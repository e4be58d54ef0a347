package postgres

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/store/sqlrow"
)

// A table whose columns cannot store the end of a lease is refused, and the error says what to change.
func TestShedLockColumns(t *testing.T) {
	t.Parallel()
	db := zoned(t, "UTC")
	for _, kind := range []string{"timestamp(0)", "date", "bigint", "time", "text"} {
		locks := table(t, db, strings.Replace(shedLockTable, "lock_until timestamp", "lock_until "+kind, 1))
		d, err := sqlrow.New(timely(t), db, sqlrow.PostgreSQL, sqlrow.ShedLock, &sqlrow.Options{Table: locks})
		if err == nil {
			d.Close()
			t.Errorf("a table whose lock_until is a %s is accepted", kind)
		} else if !strings.Contains(err.Error(), "ALTER lock_until TYPE timestamp") || !strings.Contains(err.Error(), "column lock_until") {
			t.Errorf("a table whose lock_until is a %s: %v; want what is to be changed", kind, err)
		}
	}
}
