package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// A command that only looks makes nothing: no folder, no file, no tables in a foreign database.
func TestExisting(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "misspelt", "locks.db")
	others := filepath.Join(dir, "others.db")
	db := raw(t, others)
	mustExec(t, db, "CREATE TABLE a (b)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(others)
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	write(t, empty, "")

	for _, path := range []string{missing, others, empty} {
		d, err := Open(t.Context(), path, &Options{Existing: true})
		if err == nil {
			d.Close()
		}
		says(t, "open "+path, err, path, "nobody has taken a lock")
		if !errors.Is(err, sqldb.ErrMissing) || !driver.NotApplied(err) {
			t.Errorf("open %s = %v; want %v, and certainly not applied", path, err, sqldb.ErrMissing)
		}
	}
	if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a missing file: %v; want it missing yet", err)
	}
	if after, err := os.ReadFile(others); err != nil || string(after) != string(before) {
		t.Errorf("the database of others has changed, %v", err)
	}

	path := lockFile(t)
	held := claim("x", time.Minute)
	enter(t, open(t, path), held, true)
	d, err := driver.Open(t.Context(), "sqlite://"+path+"?create=false")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if list, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list = %+v, %v; want the claim", list, err)
	}
	_, err = driver.Open(t.Context(), "sqlite://"+path+"?create=no")
	says(t, "open with create=no", err, "create", "true or false")
}
