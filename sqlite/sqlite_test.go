package sqlite

import (
	"testing"

	"github.com/stilelock/stile/driver"
)

// open opens a lock file that is closed when the test ends.
func open(t testing.TB, path string) driver.Driver {
	t.Helper()
	d, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
