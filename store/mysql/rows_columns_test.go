package mysql

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

// A table whose columns cannot store the end of a lease is refused, and the error says what to change.
func TestShedLockColumns(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"timestamp", "datetime", "datetime(2)", "date", "bigint", "time(3)", "text"} {
		for _, column := range []string{"lock_until", "locked_at"} {
			create := "CREATE TABLE locks (name varchar(64) NOT NULL PRIMARY KEY, lock_until datetime(3) NOT NULL, " +
				"locked_at datetime(3) NOT NULL, locked_by varchar(255) NOT NULL)"
			url, _ := rowsURL(t, "shedlock", strings.Replace(create, column+" datetime(3)", column+" "+kind, 1))
			d, err := driver.Open(timely(t), url)
			if err == nil {
				d.Close()
				t.Errorf("a table whose %s is a %s is accepted", column, kind)
				continue
			}
			says(t, err, "column "+column, "ALTER TABLE locks MODIFY lock_until DATETIME(3)")
		}
	}
}
