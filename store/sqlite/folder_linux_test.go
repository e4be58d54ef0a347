package sqlite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// shm is a file system in memory that every Linux has.
const shm = "/dev/shm"

// mountedVariable names a folder that was mounted for the tests in a namespace of its own.
const mountedVariable = "STILE_SQLITE_TEST_MOUNTED"

// folders are places for lock files on several file systems, since these decide how changes show.
func folders(t *testing.T) map[string]string {
	t.Helper()
	if mounted := os.Getenv(mountedVariable); mounted != "" {
		return map[string]string{"mounted": mounted}
	}
	dir, err := os.MkdirTemp(shm, "stile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return map[string]string{"temporary folder": t.TempDir(), shm: dir}
}

// A mishap is an event for an open lock file, with the error of the next use.
type mishap struct {
	do   func(dir, path string) error
	says string
}

var mishaps = map[string]mishap{
	"file removed":      {func(_, path string) error { return os.Remove(path) }, "was removed"},
	"log removed":       {func(_, path string) error { return os.Remove(path + "-wal") }, "was removed"},
	"index removed":     {func(_, path string) error { return os.Remove(path + "-shm") }, "was removed"},
	"file renamed":      {func(_, path string) error { return os.Rename(path, path+".old") }, "was removed"},
	"log moved away":    {func(dir, path string) error { return os.Rename(path+"-wal", filepath.Join(dir, "wal")) }, "was removed"},
	"file and log swap": {func(_, path string) error { return swap(path, path+"-wal") }, "was replaced"},
	"log replaced by a copy": {func(_, path string) error {
		text, err := os.ReadFile(path + "-wal")
		if err == nil {
			err = os.WriteFile(path+".copy", text, 0o600)
		}
		return errors.Join(err, os.Rename(path+".copy", path+"-wal"))
	}, "was replaced"},
	"folder renamed": {func(dir, path string) error { return os.Rename(filepath.Dir(path), filepath.Join(dir, "new")) }, "was removed"},
	"folder's parent renamed": {func(dir, _ string) error {
		return os.Rename(filepath.Join(dir, "parent"), filepath.Join(dir, "other"))
	}, "was removed"},
	"file moved into another folder of that name": {func(dir, path string) error {
		folder, old := filepath.Dir(path), filepath.Join(dir, "old")
		return errors.Join(os.Rename(folder, old), os.Mkdir(folder, 0o700), os.Rename(filepath.Join(old, "locks.db"), path))
	}, "the log"},
	"folder restored with its times": {func(_, path string) error {
		folder := filepath.Dir(path)
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(path+"-wal"), os.Chtimes(folder, info.ModTime(), info.ModTime()))
	}, "was removed"},
}

// mountedOver is a mishap that only a namespace allows.
func mountedOver(_, path string) error {
	folder := filepath.Dir(path)
	other := folder + ".other"
	if err := os.Mkdir(other, 0o700); err != nil {
		return err
	}
	return exec.Command("mount", "--bind", other, folder).Run()
}

// swap exchanges two files.
func swap(a, b string) error {
	return errors.Join(os.Rename(a, a+".swap"), os.Rename(b, a), os.Rename(a+".swap", b))
}

// The next use of a lock file notices a mishap, however soon it comes, and whether or not the last use checked the files
// themselves.
func TestMishapIsFoundAtOnce(t *testing.T) {
	if os.Getenv(mountedVariable) != "" {
		mishaps["folder mounted over"] = mishap{mountedOver, "was removed"}
	}
	for where, base := range folders(t) {
		for name, m := range mishaps {
			t.Run(where+"/"+name, func(t *testing.T) {
				for _, quiet := range []bool{false, true} {
					dir, err := os.MkdirTemp(base, "")
					if err != nil {
						t.Fatal(err)
					}
					path := filepath.Join(dir, "parent", "folder", "locks.db")
					d := open(t, path)
					held := claim("x", time.Minute)
					enter(t, d, held, true)
					if quiet {
						settle(t, filepath.Dir(path))
						for range 2 { // the first checks the files, and the second trusts the mark
							if got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err; got != nil {
								t.Fatalf("renewal = %v; want nil", got)
							}
						}
					}
					if err := m.do(dir, path); err != nil {
						t.Fatal(err)
					}
					got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err
					says(t, "renewal", got, m.says, "while it was open")
					if !errors.Is(got, driver.ErrGone) {
						t.Errorf("renewal = %v; want %v", got, driver.ErrGone)
					}
				}
			})
		}
	}
}

// Containers see their folders through an overlay, which shows the marks of another file system.
func TestMishapOnAnOverlay(t *testing.T) {
	dir := t.TempDir()
	script := "set -e; cd " + dir + "; mount -t tmpfs tmpfs .; cd " + dir + "; mkdir lower upper work mounted; " +
		"mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work mounted; export " + mountedVariable + "=" + dir + "/mounted"
	line, err := contained(t, mountNamespace, script, "", "-test.run=^(TestMishapIsFoundAtOnce|TestFolderVouches)$")
	if line != "PASS" || err != nil {
		t.Errorf("the tests on an overlay say %q, %v; want PASS", line, err)
	}
}

// settle waits until a change of a folder would leave another mark.
func settle(t *testing.T, dir string) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		m, err := readMark(dir)
		if err != nil {
			t.Fatal(err)
		}
		if m.older(coarseClock()) {
			return
		}
		<-again.C
	}
}

// The files are checked again only when an entry came to the folder or left it, or after sightLasts.
func TestFolderVouches(t *testing.T) {
	for where, dir := range folders(t) {
		t.Run(where, func(t *testing.T) {
			f := newFolder(dir)
			if !f.marked {
				t.Fatalf("the file system of %s is not known to mark its folders", dir)
			}
			looks := 0
			looksAgain := func(what string, want int) {
				t.Helper()
				looks = 0
				if err := f.vouches(func() error { looks++; return nil }); err != nil || looks != want {
					t.Errorf("%s: %v after %d looks; want nil after %d", what, err, looks, want)
				}
			}
			write(t, filepath.Join(dir, "new"), "")
			looksAgain("nobody has looked yet", 1)
			if m, err := readMark(dir); err != nil {
				t.Fatal(err)
			} else if !m.older(coarseClock()) && f.last.Load() != nil {
				t.Error("a mark is relied on that the next change may leave too")
			}
			f.last.Store(nil)
			settle(t, dir)
			looksAgain("the first use", 1)
			f.last.Load().at = time.Now().Add(time.Hour) // otherwise a slow machine would have to check again
			looksAgain("the second use", 0)
			// If the machine stands still after an entry was made, the clock has moved on at the check, whose mark is then
			// trusted.
			entry := 0
			servertest.Until(t, "an entry is looked at in the tick in which it was made", func() bool {
				entry++
				write(t, filepath.Join(dir, fmt.Sprint("a", entry)), "")
				looksAgain("an entry was made", 1)
				m, err := readMark(dir)
				return err == nil && f.last.Load().mark != m
			})
			settle(t, dir)
			looksAgain("an entry was made a while ago", 1)
			f.last.Load().at = time.Now().Add(time.Hour)
			write(t, filepath.Join(dir, "a1"), "text")
			looksAgain("an entry was written", 0)
			f.last.Load().at = time.Now().Add(-sightLasts)
			looksAgain("the last look was long ago", 1)
			failed := errors.New("moved")
			f.last.Store(nil)
			if err := f.vouches(func() error { return failed }); !errors.Is(err, failed) || f.last.Load() != nil {
				t.Errorf("a look that fails: %v, and is relied on: %v", err, f.last.Load() != nil)
			}
		})
	}
}

// The files on a file system that is not known to mark its folders are checked each time.
func TestFolderOfAnotherFileSystem(t *testing.T) {
	f, looks := newFolder("/proc/self"), 0
	for range 3 {
		if err := f.vouches(func() error { looks++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if f.marked || looks != 3 {
		t.Errorf("it was looked at %d times of 3, marked %v", looks, f.marked)
	}
}

func TestMarkOlder(t *testing.T) {
	at := time.Unix(1_800_000_000, 123_456_789)
	of := func(m time.Time) mark { return mark{seconds: m.Unix(), remainder: int64(m.Nanosecond())} }
	for _, tt := range []struct {
		mark  mark
		clock time.Duration // after at
		ok    bool
		want  bool
	}{
		{of(at), 0, true, false},
		{of(at), tick, true, false},
		{of(at), tick + 1, true, true},
		{of(at), time.Hour, false, false},
		{of(at), -time.Hour, true, false}, // the clock was set back
		{of(at.Truncate(time.Second)), time.Second, true, false},
		{of(at.Truncate(time.Second)), coarseTick, true, true},
	} {
		if got := tt.mark.older(at.Add(tt.clock), tt.ok); got != tt.want {
			t.Errorf("a mark of %d.%09d, %v after it: %v, want %v", tt.mark.seconds, tt.mark.remainder, tt.clock, got, tt.want)
		}
	}
}
