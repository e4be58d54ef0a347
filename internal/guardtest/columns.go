package guardtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stilelock/stile/guard"
)

// Columns tries [guard.Column] on columns of types that cannot hold each token. The guard keeps an earlier holder out, or
// says that the column cannot be one; it never lets a token pass that is stale.
func Columns(t *testing.T, d *Database) {
	for i, kind := range []string{"bigint", "int", "smallint", "double precision", "real", "decimal(10)",
		"decimal(20)", "varchar(20)", "char(5)", "text"} {
		t.Run(kind, func(t *testing.T) {
			table := fmt.Sprint("typed", i)
			d.exec(t, "CREATE TABLE "+table+" (id int PRIMARY KEY, fence "+kind+")")
			d.exec(t, "INSERT INTO "+table+" (id) VALUES (1)")
			column, err := guard.NewColumn(d.Dialect, table, "id", "fence")
			if err != nil {
				t.Fatal(err)
			}
			raise := func(token int64) error {
				tx, end := d.begin(t)
				err := column.Raise(t.Context(), tx, 1, token)
				end(err == nil)
				return err
			}
			for _, token := range []int64{7, 1 << 33, 1795343900235569} {
				if err := raise(token); err != nil {
					if kind == "bigint" || errors.Is(err, guard.ErrStale) || !strings.HasPrefix(err.Error(), "guard: ") {
						t.Errorf("raise of %d = %v", token, err)
					}
					return
				}
				if err := raise(token - 1); !errors.Is(err, guard.ErrStale) {
					t.Errorf("raise of %d after %d = %v; want ErrStale", token-1, token, err)
				}
			}
		})
	}
}
