package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// The tables.
const (
	names  = `"{schema}".{prefix}name`
	claims = `"{schema}".{prefix}claim`
)

// Of jobs that come and go, one cleans if nobody has for an hour.
func TestJobsClean(t *testing.T) {
	t.Parallel()
	d, step := stepped(t)
	url := "postgres://postgres@" + server.Addr + "/postgres?schema=" + d.tables.schema
	c := claim("idle", "c")
	enter(t, d, c)
	leave(t, d, c)
	for range 3 { // the first client cleaned when it came
		if n, err := d.due(timely(t), cleanEvery); err != nil || n > 0 {
			t.Fatalf("cleaning = %d, %v; want that nothing is due, or nothing idle", n, err)
		}
	}
	step(2 * time.Hour)
	job := open(t, url)
	servertest.Until(t, "the idle name is gone", func() bool { return count(t, d, names) == 0 })
	if n, err := job.due(timely(t), cleanEvery); n != -1 || err != nil {
		t.Errorf("cleaning again = %d, %v; want that it is not due", n, err)
	}
}

// The names of a new schema are found by the index, although the plan is made when the server knows of next to none.
func TestNewNamesUseIndex(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	enter(t, d, claim("first", "c"))
	exec(t, connect(t, server), d.tables.fill( // as the server does by itself
		`VACUUM ANALYZE "{schema}".{prefix}name, "{schema}".{prefix}claim, "{schema}".{prefix}meta`))
	d.link.Pool().Reset()
	const many = 200
	for i := range 2 * many { // new, and then known
		c := claim(fmt.Sprint("name/", i%many), fmt.Sprint("c/", i))
		enter(t, d, c)
		leave(t, d, c)
	}
	schema := d.tables.schema
	d.Close() // what its connections counted is known when they have ended
	admin := connect(t, server)
	var scans, looks int
	servertest.Until(t, "the server has counted", func() bool {
		err := admin.QueryRow(timely(t), `SELECT coalesce(sum(seq_scan), 0), coalesce(sum(idx_scan), 0)
FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN ('stile_name', 'stile_claim')`, schema).Scan(&scans, &looks)
		return err == nil && scans+looks >= 2*many
	})
	if scans > many/10 {
		t.Errorf("%d new names took %d scans of whole tables, and %d by an index", many, scans, looks)
	}
}
