package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// The newest claims are in the log and not in the file, so a holder whose log was removed must notice this, and nobody may
// enter before that.
func TestLogGone(t *testing.T) {
	for name, suffixes := range map[string][]string{
		"log": {"-wal"}, "log that was written back": {"-wal"}, "index": {"-shm"}, "log and index": {"-wal", "-shm"},
	} {
		t.Run(name, func(t *testing.T) {
			path := lockFile(t)
			d := open(t, path)
			held, waits := claim("x", time.Minute), claim("x", time.Minute)
			enter(t, d, held, true)
			enter(t, d, waits, false)
			if name == "log that was written back" { // nothing is missing then, and the next writer begins another log
				db := raw(t, path)
				mustExec(t, db, "PRAGMA wal_checkpoint(PASSIVE)")
				db.Close()
			}
			for _, suffix := range suffixes {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			for _, part := range []string{"try", "existing"} {
				p := start(t, part, path)
				if got := p.line(); got != "" {
					t.Errorf("another process found the lock %q once the log was removed; want it refused", got)
				}
				if err := p.Wait(); err == nil {
					t.Errorf("another process opened the file (%s); want it refused", part)
				}
				says(t, "open in another process", errors.New(strings.TrimSpace(p.err.String())), path, fmt.Sprint("process ", os.Getpid()), "another log", "restart it")
			}
			if _, err := Open(t.Context(), path, &Options{Busy: 50 * time.Millisecond}); err == nil {
				t.Errorf("this process opened the file once more; want it refused")
			} else if !driver.NotApplied(err) {
				t.Errorf("open = %v; want a definite error", err)
			}

			got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err
			says(t, "renewal", got, path+suffixes[0], "while it was open", "open it again")
			if !errors.Is(got, driver.ErrGone) {
				t.Errorf("renewal = %v; want %v", got, driver.ErrGone)
			}
			_, err := d.Enter(t.Context(), claim("y", time.Minute))
			says(t, "enter", err, path+suffixes[0], "open it again")
			if !driver.NotApplied(err) {
				t.Errorf("enter = %v; want a definite error", err)
			}
			_, err = d.(driver.Lister).List(t.Context(), &driver.Query{})
			says(t, "list", err, path+suffixes[0])
			_, err = d.Await(t.Context(), waits)
			says(t, "await", err, path+suffixes[0])

			// It is over when the last process that knew the old log has closed it.
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			again := open(t, path)
			enter(t, again, claim("z", time.Minute), true)
			enter(t, again, claim("z", time.Minute), false)
		})
	}
}

// The log of a removed file does not belong to the file that replaces it.
func TestFileGoneBesideItsLog(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	enter(t, d, claim("x", time.Minute), true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p := start(t, "try", path)
	if got := p.line(); got != "" {
		t.Errorf("another process found the lock %q once the file was removed; want it refused", got)
	}
	if err := p.Wait(); err == nil {
		t.Errorf("another process opened the file; want it refused")
	}
	says(t, "open in another process", errors.New(strings.TrimSpace(p.err.String())), path, fmt.Sprint("process ", os.Getpid()), "another file", "restart it")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	enter(t, open(t, path), claim("x", time.Minute), true)
}

// The log is beside the file that a symbolic link leads to.
func TestLogGoneBehindALink(t *testing.T) {
	path, link := lockFile(t), lockFile(t)
	open(t, path).Close()
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	d := open(t, link)
	held := claim("x", time.Minute)
	enter(t, d, held, true)
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err; !errors.Is(got, driver.ErrGone) {
		t.Errorf("renewal = %v; want %v", got, driver.ErrGone)
	}
}

// A long log restarts, although the driver and not SQLite writes it back, and for any page size of the file.
func TestLogIsWrittenBack(t *testing.T) {
	for size, made := range map[int]bool{1024: true, 4096: false} {
		path := lockFile(t)
		if !made {
			db := raw(t, path)
			mustExec(t, db, "PRAGMA journal_mode = WAL")
			mustExec(t, db, "CREATE TABLE other (x)")
			db.Close()
		}
		d := open(t, path)
		var got int
		if err := raw(t, path).QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&got); err != nil || got != size {
			t.Errorf("pages have %d bytes, %v; want %d", got, err, size)
		}
		const pages, least = 1000, 5 // of the log, and of a lock and unlock
		for range 3 * pages / 2 / least {
			c := claim("x", time.Minute)
			enter(t, d, c, true)
			leave(t, d, c)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if n := int(info.Size()) / size; n < pages || n > pages*11/10 {
			t.Errorf("the log has grown to %d pages of %d bytes; want %d", n, size, pages)
		}
	}
}

// The log does not grow without bound while two processes that share it write all the time.
func TestLogIsWrittenBackWhileOthersWrite(t *testing.T) {
	const pages, least = 1000, 5 // of the log, and of a lock and unlock
	path := lockFile(t)
	var writing sync.WaitGroup
	for _, name := range []string{"x", "y"} {
		d := open(t, path)
		writing.Go(func() {
			for range 4 * pages / least {
				c := claim(name, time.Minute)
				if p, err := d.Enter(t.Context(), c); err != nil || !p.Holds {
					t.Errorf("enter = %+v, %v; want it held", p, err)
				}
				if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
					t.Errorf("leave = %v", err)
				}
			}
		})
	}
	writing.Wait()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if n := int(info.Size()) / 1024; n < pages || n > 6*pages {
		t.Errorf("the log has grown to %d pages; want about %d", n, pages)
	}
}
