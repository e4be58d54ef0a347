package guardtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stilelock/stile/guard"
)

// Columns tests [guard.Column], and [guard.Table] over an existing table, on columns of types that cannot hold every token.
// The guard keeps an earlier holder out, or refuses the column; it never accepts a stale token.
func Columns(t *testing.T, d *Database) {
	resource := map[guard.Dialect]string{guard.MySQL: "varbinary(255)"}[d.Dialect]
	if resource == "" {
		resource = "text"
	}
	for i, kind := range []string{"bigint", "int", "smallint", "double precision", "real", "decimal(10)",
		"decimal(20)", "varchar(20)", "char(5)", "text"} {
		t.Run(kind, func(t *testing.T) {
			name := fmt.Sprint("typed", i)
			d.exec(t, "CREATE TABLE "+name+" (id int PRIMARY KEY, fence "+kind+")")
			d.exec(t, "INSERT INTO "+name+" (id) VALUES (1)")
			column, err := guard.NewColumn(d.Dialect, name, "id", "fence")
			if err != nil {
				t.Fatal(err)
			}
			typed(t, d, kind, func(tx guard.Tx, token int64) error { return column.Raise(t.Context(), tx, 1, token) })
		})
		t.Run("table of "+kind, func(t *testing.T) {
			name := fmt.Sprint("marks", i)
			d.exec(t, "CREATE TABLE "+name+" (resource "+resource+" PRIMARY KEY, token "+kind+" NOT NULL)")
			table, err := guard.NewTable(d.Dialect, name)
			if err != nil {
				t.Fatal(err)
			}
			typed(t, d, kind, func(tx guard.Tx, token int64) error { return table.Raise(t.Context(), tx, "x", token) })
		})
	}
}

// typed raises tokens in a column of a kind, and after each the one before it.
func typed(t *testing.T, d *Database, kind string, raises func(tx guard.Tx, token int64) error) {
	t.Helper()
	raise := func(token int64) error {
		tx, end := d.begin(t)
		err := raises(tx, token)
		end(err == nil)
		return err
	}
	for _, token := range []int64{7, 1 << 33, 1795343900235569} {
		err := raise(token)
		if d.Dialect != guard.SQLite && (kind == "double precision" || kind == "real") && !errors.Is(err, guard.ErrInvalid) {
			t.Errorf("raise of %d = %v; want ErrInvalid", token, err)
		}
		if err != nil {
			if kind == "bigint" || errors.Is(err, guard.ErrStale) || !strings.HasPrefix(err.Error(), "guard: ") {
				t.Errorf("raise of %d = %v", token, err)
			}
			return
		}
		if err := raise(token - 1); !errors.Is(err, guard.ErrStale) {
			t.Errorf("raise of %d after %d = %v; want ErrStale", token-1, token, err)
		}
	}
}
