//go:build unix

package drive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// Mishaps are the mishaps of a store of one server whose data are in a folder of its own folder: the data are wiped,
// or come back as an older copy. No claim is in either. All mishaps have one server, one after the other, which is
// started for the first. Each [drivertest.Mishap] has this Forgets.
func Mishaps(
	start func(t testing.TB) *servertest.Server, url func(addrs ...string) string, data string, forgets bool,
) map[string]func(t testing.TB) *drivertest.Mishap {
	var s *servertest.Server
	befallen := func(wiped bool) func(testing.TB) *drivertest.Mishap {
		return func(t testing.TB) *drivertest.Mishap {
			if s == nil {
				s = start(t)
			}
			open := func() (d driver.Driver, err error) {
				for begun := time.Now(); time.Since(begun) < within; { // it may just have come back
					if d, err = driver.Open(Timely(t), url(s.Addr)); err == nil || !driver.IsUnreachable(err) {
						break
					}
				}
				return d, err
			}
			folder, older := filepath.Join(s.Dir, data), filepath.Join(t.TempDir(), "older")
			if !wiped {
				s.Stop()
				if err := os.CopyFS(older, os.DirFS(folder)); err != nil {
					t.Fatal(err)
				}
				s.Restart()
			}
			use(t, open) // so that it has counted further than one that was just started
			return &drivertest.Mishap{Open: open, Frees: true, Forgets: forgets, Back: back, Happens: func() {
				s.Kill()
				_, err := os.Stat(folder) // for RemoveAll, no folder is no error
				err = errors.Join(err, os.RemoveAll(folder))
				if !wiped {
					err = errors.Join(err, os.CopyFS(folder, os.DirFS(older)))
				}
				if err != nil {
					t.Fatal(err)
				}
				s.Restart()
			}}
		}
	}
	return both(befallen)
}

// both returns the mishaps of stores that are wiped, or not.
func both(befallen func(wiped bool) func(testing.TB) *drivertest.Mishap) map[string]func(testing.TB) *drivertest.Mishap {
	return map[string]func(testing.TB) *drivertest.Mishap{
		Wiped: befallen(true),
		"its data come back as they were long ago": befallen(false),
	}
}

// Wiped is the mishap that a store's data are removed.
const Wiped = "its data are wiped"

// back is how long a client that waits is given to be through to a server that came back.
const back = 2 * time.Second

// use lets many claims come and go.
func use(t testing.TB, open func() (driver.Driver, error)) {
	t.Helper()
	d, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 50 {
		c := Claim("other", "used")
		Holds(t, d, c)
		Leave(t, d, c)
	}
}
