package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The tables.
const (
	names  = `"{schema}".{prefix}name`
	claims = `"{schema}".{prefix}claim`
)

// Names that are in use do not keep the cleaning from those that are not, however many there are.
func TestCleanGoesPastNamesInUse(t *testing.T) {
	t.Parallel()
	d, step := stepped(t)
	for i := range 20 {
		for _, id := range []string{"holds", "waits"} { // so that the claims are rows of their own
			c := claim(fmt.Sprint("used/", i), id)
			c.TTL, c.Wait = 24*time.Hour, 24*time.Hour
			enter(t, d, c)
		}
	}
	for i := range 5 {
		c := claim(fmt.Sprint("idle/", i), "c")
		enter(t, d, c)
		leave(t, d, c)
	}
	step(2 * time.Hour)
	for want := range 5 {
		if n, err := d.clean(timely(t), time.Hour, 10); err != nil || n == 0 {
			t.Fatalf("cleaning = %d, %v, with %d of 5 idle names gone", n, err, want)
		} else if n == 5 {
			break
		}
	}
	if n := count(t, d, names); n != 20 {
		t.Errorf("%d names are left; want the 20 in use", n)
	}
}

// What holders and waiters leave behind that died is removed an hour after it ran out, and not before.
func TestCleanAfterCrash(t *testing.T) {
	t.Parallel()
	d, step := stepped(t)
	lone := claim("lone", "x")
	enter(t, d, lone)
	leave(t, d, lone)
	for _, c := range []*driver.Claim{claim("lone", "a"), claim("queue", "b"), claim("queue", "c")} {
		c.TTL, c.Wait, c.Delay = 30*time.Minute, 30*time.Minute, 5*time.Minute
		enter(t, d, c)
	}
	for _, tt := range []struct {
		step time.Duration
		want int64
	}{{20 * time.Minute, 0}, {90 * time.Minute, 0}, {100 * time.Minute, 2}} {
		step(tt.step)
		if n, err := d.clean(timely(t), time.Hour, 10); err != nil || n != tt.want {
			t.Errorf("cleaning %v later = %d, %v; want %d", tt.step, n, err, tt.want)
		}
	}
	if n, m := count(t, d, names), count(t, d, claims); n+m != 0 {
		t.Errorf("%d names and %d claims are left", n, m)
	}
}

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
