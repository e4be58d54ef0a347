package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

func init() {
	mishapsOfFiles = map[string]func(testing.TB) *drivertest.Mishap{
		"the machine boots": func(t testing.TB) *drivertest.Mishap {
			path := lockFile(t)
			m := befallen(t, path, func() error {
				_, err := raw(t, path).ExecContext(t.Context(), "UPDATE stile_meta SET boot = 'an earlier boot'")
				return err
			})
			m.Frees = true
			return m
		},
		"a power cut that undoes what was not synced": powerCut,
	}
	for name, m := range mishaps {
		if name == "file and log swap" {
			continue // afterwards nobody can open the file
		}
		mishapsOfFiles[name] = func(t testing.TB) *drivertest.Mishap {
			dir := t.TempDir()
			path := filepath.Join(dir, "parent", "folder", "locks.db")
			happened := false
			b := befallen(t, path, func() error { happened = true; return m.do(dir, path) })
			b.Told = true
			here := b.Open
			b.Open = func() (driver.Driver, error) {
				if happened { // within one process, SQLite shares open files
					happened = false
					return &container{t: t, path: path}, nil
				}
				return here()
			}
			return b
		}
	}
	maps.Copy(mishapsOfFiles, map[string]func(testing.TB) *drivertest.Mishap{
		"a container with a boot id of its own": inContainer(mountNamespace, func(t testing.TB, path string) (string, string) {
			return bootID(t, "11111111-2222-4333-8444-555555555555"), path
		}),
		"a container whose clock is a day ahead":   inContainer([]string{"--time", "--boottime", "86400"}, nil),
		"a container whose clock is a minute back": inContainer([]string{"--time", "--boottime", "-60"}, nil),
		"a container with the folder": inContainer(mountNamespace, func(t testing.TB, path string) (string, string) {
			elsewhere := t.TempDir()
			return "set -e; mount --bind " + filepath.Dir(path) + " " + elsewhere, filepath.Join(elsewhere, filepath.Base(path))
		}),
		"a container with the file alone": inContainer(mountNamespace, func(t testing.TB, path string) (string, string) {
			inside := filepath.Join(t.TempDir(), "inside.db")
			write(t, inside, "")
			return "set -e; mount --bind " + path + " " + inside, inside
		}),
		"a symbolic link": byAnotherName(os.Symlink),
		"a hard link":     byAnotherName(os.Link),
		"a crash of all, and a hard link to what they leave": crashed,
	})
}

// befallen returns a lock file with a mishap.
func befallen(t testing.TB, path string, happens func() error) *drivertest.Mishap {
	return &drivertest.Mishap{
		Open: func() (driver.Driver, error) { return Open(t.Context(), path, brief) },
		Happens: func() {
			if err := happens(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// powerCut resets a lock file to its content when it was first opened, in another boot.
func powerCut(t testing.TB) *drivertest.Mishap {
	path := lockFile(t)
	kept := map[string]string{}
	m := befallen(t, path, func() error {
		cut := lockFile(t)
		for suffix, text := range kept {
			write(t, cut+suffix, text)
		}
		db := raw(t, cut)
		mustExec(t, db, "UPDATE stile_meta SET boot = 'an earlier boot'")
		if err := db.Close(); err != nil {
			return err
		}
		return errors.Join(os.Remove(path+"-wal"), os.Remove(path+"-shm"), os.Rename(cut, path))
	})
	opens := m.Open
	m.Open = func() (driver.Driver, error) {
		d, err := opens()
		if err == nil && len(kept) == 0 {
			for _, suffix := range []string{"-wal", ""} {
				text, err := os.ReadFile(path + suffix)
				if err != nil {
					return nil, err
				}
				kept[suffix] = string(text)
			}
		}
		return d, err
	}
	return m
}

// elsewhere returns a lock file that the first client after the mishap opens in another way.
func elsewhere(t testing.TB, path string, opens func() (driver.Driver, error)) *drivertest.Mishap {
	happened := false
	m := befallen(t, path, func() error { happened = true; return nil })
	plainly := m.Open
	m.Keeps, m.Open = true, func() (driver.Driver, error) {
		if happened {
			happened = false
			return opens()
		}
		return plainly()
	}
	return m
}

// byAnotherName opens a file by another name.
func byAnotherName(link func(old, name string) error) func(testing.TB) *drivertest.Mishap {
	return func(t testing.TB) *drivertest.Mishap {
		path := lockFile(t)
		return elsewhere(t, path, func() (driver.Driver, error) {
			other := filepath.Join(filepath.Dir(path), "other.db")
			if err := link(path, other); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(other) // otherwise nobody could open the file again
			return Open(t.Context(), other, brief)
		})
	}
}

// crashed is a lock file whose clients all crash, which leaves the claims in the log. The next clients come by another name,
// a hard link, except the first client, which comes back by its own.
func crashed(t testing.TB) *drivertest.Mishap {
	path, left := lockFile(t), lockFile(t)
	other := filepath.Join(filepath.Dir(left), "other.db")
	opened, happened := 0, false
	m := befallen(t, path, func() error {
		happened = true
		for _, suffix := range []string{"", "-wal"} {
			text, err := os.ReadFile(path + suffix)
			if err != nil {
				return err
			}
			write(t, left+suffix, string(text))
		}
		return os.Link(left, other)
	})
	opens := m.Open
	m.Open = func() (driver.Driver, error) {
		opened++
		switch {
		case opened > 3: // all are closed, and the other name is removed
			if err := os.Remove(other); err != nil {
				return nil, err
			}
			return Open(t.Context(), left, brief)
		case happened: // SQLite shares open files within a process, so each call opens the file
			return &crasher{crashed: &happened, path: other}, nil
		}
		d, err := opens()
		back := other
		if opened == 1 {
			back = left
		}
		return &crasher{Driver: d, crashed: &happened, path: back}, err
	}
	return m
}

// A crasher is a client that crashes, and then opens a path for each of its calls.
type crasher struct {
	driver.Driver
	crashed *bool
	path    string
}

func (c *crasher) now() (d driver.Driver, done func() error, err error) {
	if !*c.crashed {
		return c.Driver, func() error { return nil }, nil
	}
	if d, err = Open(context.Background(), c.path, brief); err != nil {
		return nil, nil, err
	}
	return d, d.Close, nil
}

func (c *crasher) Enter(ctx context.Context, claim *driver.Claim) (p driver.Place, err error) {
	d, done, err := c.now()
	if err == nil {
		p, err = d.Enter(ctx, claim)
		err = errors.Join(err, done())
	}
	return p, err
}

func (c *crasher) Renew(ctx context.Context, claims []*driver.Claim) []driver.Renewal {
	d, done, err := c.now()
	if err != nil {
		return []driver.Renewal{{Err: err}}
	}
	answers := d.Renew(ctx, claims)
	answers[0].Err = errors.Join(answers[0].Err, done())
	return answers
}

func (c *crasher) Leave(ctx context.Context, l *driver.Release) error {
	d, done, err := c.now()
	if err == nil {
		err = errors.Join(d.Leave(ctx, l), done())
	}
	return err
}

// Close closes the driver from before the crash.
func (c *crasher) Close() error {
	if c.Driver == nil {
		return nil
	}
	return c.Driver.Close()
}

// inContainer lets another process try, in namespaces of its own. Arrange returns a script for it, and the path there.
func inContainer(namespaces []string, arrange func(t testing.TB, path string) (script, inside string)) func(testing.TB) *drivertest.Mishap {
	return func(t testing.TB) *drivertest.Mishap {
		path := lockFile(t)
		return elsewhere(t, path, func() (driver.Driver, error) {
			script, inside := "", path
			if arrange != nil {
				script, inside = arrange(t, path)
			}
			return &container{t: t, namespaces: namespaces, script: script, path: inside}, nil
		})
	}
}

// A container is a client in another process, which only tries.
type container struct {
	driver.Driver // nil

	t            testing.TB
	namespaces   []string
	script, path string
}

// Enter starts a process that tries the name and then leaves it.
func (c *container) Enter(_ context.Context, claim *driver.Claim) (driver.Place, error) {
	line, err := contained(c.t, c.namespaces, c.script, "tryName", c.path, claim.Name)
	p := driver.Place{}
	if n, _ := fmt.Sscanf(line, "free %d", &p.Ticket); n == 1 {
		p.Holds = true
	}
	return p, err
}

func (c *container) Renew(_ context.Context, claims []*driver.Claim) []driver.Renewal {
	return make([]driver.Renewal, len(claims))
}

func (c *container) Leave(context.Context, *driver.Release) error { return nil }

func (c *container) Close() error { return nil }
