package postgres

import (
	"errors"
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

// A claim for which the client expects others leaves all the same where it is alone, and one that is gone is so.
func TestLoneLeavesAsIfFollowed(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	first, c := claim("name", "first"), claim("name", "next")
	enter(t, d, first) // makes the row of the name
	leave(t, d, first)
	enter(t, d, c)
	if n := count(t, d, lone); n != 1 {
		t.Fatalf("%d claims are alone; want 1", n)
	}
	d.contended.Of(c.Name).Store(true)
	leave(t, d, c)
	if n := count(t, d, lone) + count(t, d, queued); n != 0 {
		t.Errorf("%d claims are there after it has left; want none", n)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: c}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leaving once more = %v; want that it is gone", err)
	}
}
