package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
)

// count returns how many rows a condition selects.
func count(t testing.TB, d *Driver, where string) (n int) {
	t.Helper()
	statement := d.tables.fill("SELECT count(*) FROM " + where)
	err := d.link.Query(timely(t), statement, nil, func(rows pgx.Rows) error { return rows.Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	lone   = `"{schema}".{prefix}name WHERE ends > 0`
	queued = `"{schema}".{prefix}name n JOIN "{schema}".{prefix}claim c ON c.name = n.name WHERE n.queued`
)

// loner returns a client of a new schema.
func loner(t *testing.T) *drive.Lone {
	t.Helper()
	d := open(t, fresh(server))
	return &drive.Lone{
		Driver: d,
		Alone:  func(t *testing.T) int { return count(t, d, lone) },
		Queued: func(t *testing.T) int { return count(t, d, queued) },
		Empty: func(t *testing.T) {
			if err := d.link.Query(timely(t), d.tables.fill(`TRUNCATE "{schema}".{prefix}name`), nil, nil); err != nil {
				t.Fatal(err)
			}
		},
		Listens: func(t *testing.T, c *driver.Claim) { listens(t, d, c) },
	}
}

func TestLone(t *testing.T) {
	t.Parallel()
	drive.LoneMovesOut(t, loner)
}

func TestLoneEnds(t *testing.T) {
	t.Parallel()
	drive.LoneEnds(t, loner)
}
