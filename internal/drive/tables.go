//go:build unix

package drive

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

// TableMishaps are the mishaps of a store in a database: its tables are emptied, or come back as an older copy,
// without the claims. Fresh makes a store that nobody has used, and returns its URL, a function that executes a
// statement, and these tables.
func TableMishaps(
	fresh func(t testing.TB) (url string, do func(statement string), tables []string),
) map[string]func(t testing.TB) *drivertest.Mishap {
	befallen := func(wiped bool) func(testing.TB) *drivertest.Mishap {
		return func(t testing.TB) *drivertest.Mishap {
			url, do, tables := fresh(t)
			open := func() (driver.Driver, error) { return driver.Open(Timely(t), url) }
			use(t, open)
			if !wiped {
				for _, table := range tables {
					do("CREATE TABLE " + table + "_older AS SELECT * FROM " + table)
				}
			}
			use(t, open)
			return &drivertest.Mishap{Open: open, Frees: true, Happens: func() {
				for _, table := range tables {
					do("DELETE FROM " + table)
					if !wiped {
						do("INSERT INTO " + table + " SELECT * FROM " + table + "_older")
					}
				}
			}}
		}
	}
	return both(befallen)
}
