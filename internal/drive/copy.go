//go:build unix

package drive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// OlderCopy has a server come back with an older copy of its folder of data, which lacks a claim that holds. The claim is
// lost, and the next one holds; its ticket is returned, with that of the claim.
func OlderCopy(t *testing.T, s *servertest.Server, url, folder string) (lost, next int64) {
	t.Helper()
	d := Opener(url)(t)
	t.Cleanup(func() { _ = d.Close() })
	first := Claim("name", "first")
	Holds(t, d, first)
	Leave(t, d, first)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	data, older := filepath.Join(s.Dir, folder), filepath.Join(t.TempDir(), "older")
	s.Stop()
	if err := os.CopyFS(older, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	d = Opener(url)(t)
	t.Cleanup(func() { _ = d.Close() })
	held := Claim("name", "held")
	Holds(t, d, held)
	s.Stop()
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(older))); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	servertest.Within(t, time.Minute, "the claim is lost", func() bool {
		err := Renew(t, d, held)
		return errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrSession)
	})
	after := Claim("name", "after")
	for begin := time.Now(); ; {
		p, err := d.Enter(Timely(t), after)
		switch {
		case err == nil && p.Holds:
			return held.Ticket, p.Ticket
		case time.Since(begin) > time.Minute:
			t.Fatalf("the next claim gets %+v, %v; want that it holds", p, err)
		}
	}
}
