package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// earlier changes the tables of a lock file into tables of version 1.
func earlier(t testing.TB, db *sql.DB) {
	t.Helper()
	mustExec(t, db, "ALTER TABLE stile_meta DROP COLUMN seen")
	mustExec(t, db, "UPDATE stile_meta SET version = 1")
}

// A file of an earlier version is upgraded in place, with its tickets, when it has no claim of an earlier version: such a
// claim could not be renewed any more.
func TestSchemaOfVersionOne(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	held := claim("x", time.Hour)
	enter(t, d, held, true)
	db := raw(t, path)
	earlier(t, db)
	for _, existing := range []bool{false, true} {
		refused, err := Open(t.Context(), path, &Options{Existing: existing})
		if err == nil {
			refused.Close()
		}
		says(t, "open", err, path, "older stile", "(1)")
		if !driver.NotApplied(err) {
			t.Errorf("open = %v; want a definite error", err)
		}
	}
	mustExec(t, db, "UPDATE stile_claim SET ends = since")
	next := open(t, path)
	takes := claim("x", time.Hour)
	enter(t, next, takes, true)
	if takes.Ticket <= held.Ticket {
		t.Errorf("the ticket is %d; want above %d", takes.Ticket, held.Ticket)
	}
	var version int
	var seen, since int64
	row := db.QueryRowContext(t.Context(), "SELECT version, seen, min(since) FROM stile_meta, stile_claim")
	if err := row.Scan(&version, &seen, &since); err != nil || version != 2 || seen < since {
		t.Errorf("version %d, seen %d, claim since %d, %v; want version 2, seen at the claim or later", version, seen, since, err)
	}
}

// A claim that was renewed for days before the boot must not keep others out for days after it.
func TestSchemaOfVersionOneFromAnEarlierBoot(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	enter(t, d, claim("x", time.Minute), true)
	db := raw(t, path)
	earlier(t, db)
	mustExec(t, db, "UPDATE stile_claim SET since = 1, ends = ends + 200000000000")
	mustExec(t, db, "UPDATE stile_meta SET boot = 'unknown'") // as if its id were a container's
	enter(t, open(t, path), claim("x", time.Minute), true)
}

// Opening a damaged file reports the damage, before the first lock is taken.
func TestOpenRefusesDamage(t *testing.T) {
	tests := map[string]struct {
		damage []string
		parts  []string
	}{
		"no claims":      {[]string{"DROP TABLE stile_claim"}, []string{"damaged", "stile_claim", "delete it"}},
		"no index":       {[]string{"DROP INDEX stile_claim_name"}, []string{"damaged", "stile_claim_name", "delete it"}},
		"no row":         {[]string{"DELETE FROM stile_meta"}, []string{"stile_meta", "not make"}},
		"another meta":   {[]string{"DROP TABLE stile_meta", "CREATE TABLE stile_meta (a TEXT)"}, []string{"stile_meta", "not make"}},
		"no column":      {[]string{"ALTER TABLE stile_claim DROP COLUMN told"}, []string{"damaged", "told", "delete it"}},
		"no column seen": {[]string{"ALTER TABLE stile_meta DROP COLUMN seen"}, []string{"stile_meta", "not make"}},
		"no claims in v1": {[]string{
			"ALTER TABLE stile_meta DROP COLUMN seen", "UPDATE stile_meta SET version = 1", "DROP TABLE stile_claim",
		}, []string{"damaged", "stile_claim"}},
		"index without rows": {[]string{
			"PRAGMA writable_schema = ON",
			"UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'other') WHERE name = 'stile_claim_name'",
		}, []string{"damaged", "stile_claim_name"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := lockFile(t)
			d := open(t, path)
			enter(t, d, claim("x", time.Minute), true)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			db := raw(t, path)
			db.SetMaxOpenConns(1)
			mustExec(t, db, "CREATE TABLE of_others (name TEXT)")
			mustExec(t, db, "CREATE INDEX other ON of_others (name)")
			for _, text := range tt.damage {
				mustExec(t, db, text)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, existing := range []bool{false, true} {
				again, err := Open(t.Context(), path, &Options{Existing: existing})
				if err == nil {
					again.Close()
				}
				says(t, "open", err, slices.Concat([]string{path}, tt.parts)...)
				if !driver.NotApplied(err) {
					t.Errorf("open = %v; want a definite error", err)
				}
			}
		})
	}
	// Foreign tables are ignored.
	path := filepath.Join(t.TempDir(), "locks.db")
	open(t, path).Close()
	db := raw(t, path)
	mustExec(t, db, "CREATE TABLE stile_other (a TEXT)")
	open(t, path)
}

// Changes of the tables by another program while they are in use are explained, and nothing is written.
func TestDamagedWhileOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		damage  string
		says    string
		foreign bool
	}{
		"no claims":    {"DROP TABLE stile_claim", "stile_claim", false},
		"no row":       {"DELETE FROM stile_meta", "did not make", true},
		"no meta":      {"DROP TABLE stile_meta", "did not make", true},
		"another row":  {"UPDATE stile_meta SET version = 99", "newer stile", false},
		"another time": {"UPDATE stile_meta SET boot = ''", "another clock", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := lockFile(t)
			d := open(t, path)
			enter(t, d, claim("x", time.Minute), true)
			mustExec(t, raw(t, path), tt.damage)
			for _, of := range []string{"x", "y"} { // a name with claims, and one without
				_, err := d.Enter(t.Context(), claim(of, time.Minute))
				says(t, "enter", err, tt.says)
				if !driver.NotApplied(err) || errors.Is(err, driver.ErrForeign) != tt.foreign {
					t.Errorf("enter = %v; want a definite error, of something foreign: %v", err, tt.foreign)
				}
			}
		})
	}
}
