package postgres

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
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
				if _, err := in.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			return func() (driver.Driver, error) {
				return driver.Open(timely(t), "postgres://"+role+"@"+server.Addr+"/postgres?schema="+s)
			}
		}
	}
	return all
}
