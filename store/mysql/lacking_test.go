package mysql

import (
	"testing"

	"github.com/stilelock/stile/driver"
)

// lacking makes users with some rights to the tables.
func lacking() map[string]func(testing.TB) func() (driver.Driver, error) {
	all := map[string]func(testing.TB) func() (driver.Driver, error){}
	for what, may := range map[string]string{
		"the tables": "CREATE TEMPORARY TABLES",
		"writing":    "SELECT",
		"deleting":   "SELECT, INSERT, UPDATE",
		"inserting":  "SELECT, UPDATE, DELETE",
	} {
		all[what] = func(t testing.TB) func() (driver.Driver, error) {
			name := database(t, server)
			user, db := "u"+name[5:20], raw(t, server, name)
			open(t, "mysql://root@"+server.Addr+"/"+name)
			mustExec(t, db, "CREATE USER "+user+"; GRANT "+may+" ON "+name+".* TO "+user)
			return func() (driver.Driver, error) { return driver.Open(timely(t), "mysql://"+user+"@"+server.Addr+"/"+name) }
		}
	}
	return all
}
