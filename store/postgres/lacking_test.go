package postgres

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// lacking makes roles that have all rights to the tables except some.
func lacking() map[string]func(testing.TB) func() (driver.Driver, error) {
	all := map[string]func(testing.TB) func() (driver.Driver, error){}
	for what, revoke := range map[string]string{
		"making tables": "DROP SCHEMA $schema CASCADE",
		"the schema":    "REVOKE USAGE ON SCHEMA $schema FROM $role",
		"writing":       "REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA $schema FROM $role",
		"deleting":      "REVOKE DELETE ON ALL TABLES IN SCHEMA $schema FROM $role",
		"functions":     "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA $schema FROM PUBLIC",
	} {
		all[what] = func(t testing.TB) func() (driver.Driver, error) {
			s, role, in := schema(), "r"+strings.ToLower(rand.Text()), pool(t)
			open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s)
			for _, statement := range []string{
				"CREATE ROLE $role LOGIN", "GRANT USAGE ON SCHEMA $schema TO $role", "GRANT ALL ON ALL TABLES IN SCHEMA $schema TO $role", revoke,
			} {
				statement = strings.NewReplacer("$schema", s, "$role", role).Replace(statement)
				servertest.Until(t, statement, func() bool { // others drop schemas too, and may be in the way
					_, err := in.ExecContext(t.Context(), statement)
					if err != nil && !strings.Contains(err.Error(), "deadlock detected") {
						t.Fatalf("%s: %v", statement, err)
					}
					return err == nil
				})
			}
			return func() (driver.Driver, error) {
				return driver.Open(timely(t), "postgres://"+role+"@"+server.Addr+"/postgres?schema="+s)
			}
		}
	}
	return all
}
