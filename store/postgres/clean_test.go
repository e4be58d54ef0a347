package postgres

import (
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// The tables.
const (
	names  = `"{schema}".{prefix}name`
	claims = `"{schema}".{prefix}claim`
)

// Among short-lived jobs, one cleans if none has cleaned for an hour.
func TestJobsClean(t *testing.T) {
	t.Parallel()
	d, step := stepped(t)
	url := "postgres://postgres@" + server.Addr + "/postgres?schema=" + d.tables.schema
	c := claim("idle", "c")
	enter(t, d, c)
	leave(t, d, c)
	for range 3 { // the first client cleaned when it opened
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
