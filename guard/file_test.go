//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

// raise shows a token to a file, which must succeed.
func raise(t *testing.T, path string, token int64) *guard.File {
	t.Helper()
	f, err := guard.RaiseFile(t.Context(), path, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	var late *guard.File
	for i, token := range guardtest.Tokens {
		f := raise(t, path, token)
		raise(t, path, token) // the same lease again
		if late != nil {
			if _, err := late.Read(t.Context()); !errors.Is(err, guard.ErrStale) {
				t.Errorf("a late read = %v, want ErrStale", err)
			}
			err := late.Write(t.Context(), []byte("late"))
			if stale, ok := errors.AsType[*guard.StaleError](err); !ok || stale.Newer != token || stale.Token != guardtest.Tokens[i-1] {
				t.Errorf("a late write = %v, want a StaleError with both tokens", err)
			}
			if _, err := guard.RaiseFile(t.Context(), path, guardtest.Tokens[i-1], nil); !errors.Is(err, guard.ErrStale) {
				t.Errorf("a late raise = %v, want ErrStale", err)
			}
		}
		if data, err := f.Read(t.Context()); i == 0 && !errors.Is(err, fs.ErrNotExist) || i > 0 && string(data) != fmt.Sprint("b", i-1) {
			t.Errorf("read = %q, %v", data, err)
		}
		for _, text := range []string{"a", "b"} { // any number of times
			if err := f.Write(t.Context(), []byte(text+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
		late = f
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(files) != 2 {
		t.Errorf("%q: want the file and its mark", files)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); left != nil {
		t.Errorf("%q is left over", left)
	}
}

func TestFileBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path  string
		token int64
		want  error // nil means any
	}{
		{"a", 0, guard.ErrNoToken}, {"a", -1, guard.ErrNoToken},
		{"dangling", 1, guard.ErrInvalid}, {".", 1, guard.ErrInvalid},
		{"no/such/folder", 1, fs.ErrNotExist}, {"a\x00b", 1, nil}, {strings.Repeat("n", 300), 1, nil},
	} {
		f, err := guard.RaiseFile(t.Context(), filepath.Join(dir, tt.path), tt.token, nil)
		if err == nil || f != nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%q, token %d: %v, %v; want %v", tt.path, tt.token, f, err, tt.want)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%v are left over", left)
	}
}

// A file has one mark, whatever path leads to it, and a link to it stays a link.
func TestFileBehindALink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "data"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o640), os.Chmod(path, 0o440), os.Symlink("data", link)); err != nil {
		t.Fatal(err)
	}
	late := raise(t, path, 1)
	f := raise(t, link, 2)
	if err := late.Write(t.Context(), nil); !errors.Is(err, guard.ErrStale) {
		t.Errorf("a late write by the other name = %v, want ErrStale", err)
	}
	if err := f.Write(t.Context(), []byte("new")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); to != "data" || err != nil {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o440 || contents(t, path) != "new" {
		t.Errorf("%v, %v, %q; want the new text with the permissions of the old", info.Mode(), err, contents(t, path))
	}
	if info, err := os.Stat(path + ".stile"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mark: %v, %v; want that its owner can write it", info.Mode(), err)
	}
}

// A crash cuts the write of a mark short at every byte. The earlier record stays, and the rest of the write is missing or
// garbage. The mark is never lower than a token that was answered.
func TestTornMark(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	mark := path + ".stile"
	for _, before := range [][]int64{nil, {7}, {7, 8}, {6, 7, 8}, {1 << 40, 1<<63 - 2}} {
		os.Remove(mark)
		highest := int64(0)
		for _, token := range before {
			raise(t, path, token)
			highest = token
		}
		old, _ := os.ReadFile(mark)
		raise(t, path, highest+1)
		fresh, err := os.ReadFile(mark)
		if err != nil {
			t.Fatal(err)
		}
		from := 512 * (len(before) % 2) // the offset of the new record
		for cut := range 512 {
			if cut > 64 && cut%64 != 63 {
				continue // blanks
			}
			for _, rest := range []string{"", "\x00", "9"} {
				torn := append([]byte{}, fresh[:from+cut]...)
				for i := len(torn); rest != "" && i < from+512; i++ {
					torn = append(torn, rest...)
				}
				if len(old) > len(torn) {
					torn = append(torn, old[len(torn):]...)
				}
				if err := os.WriteFile(mark, torn, 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := guard.RaiseFile(t.Context(), path, max(1, highest-1), nil)
				if highest > 0 && !errors.Is(err, guard.ErrStale) {
					t.Fatalf("after %d, cut after %d bytes, then %q: a lower token = %v, want ErrStale", before, cut, rest, err)
				}
				if highest == 0 && rest == "9" {
					continue // no crash leaves this: there was no file before
				}
				if highest == 0 && err != nil {
					t.Fatalf("the first record, cut after %d bytes, then %q: %v, want that it does not matter", cut, rest, err)
				}
				raise(t, path, highest+1)
			}
		}
	}
}

func TestDamagedMark(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	f := raise(t, path, 5)
	raise(t, path, 6)
	whole := contents(t, path+".stile")
	for _, text := range []string{"something else", strings.Repeat("x", 512), strings.Repeat("x", 1024), whole + "x", strings.Repeat("\x00", 1024)} {
		if err := os.WriteFile(path+".stile", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.RaiseFile(t.Context(), path, 7, nil); err == nil || errors.Is(err, guard.ErrStale) {
			t.Errorf("raise over %.20q = %v, want that it is damaged", text, err)
		}
		if err := f.Write(t.Context(), nil); err == nil {
			t.Errorf("a write goes through with a mark of %.20q", text)
		}
	}
	if err := os.Remove(path + ".stile"); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), nil); !errors.Is(err, guard.ErrNotRaised) {
		t.Errorf("a write without the mark = %v, want ErrNotRaised", err)
	}
}

// While another process has the system's lock on the mark, a raise waits until its context ends.
func TestFileWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	f := raise(t, path, 5)
	free := hold(t, path+".stile")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := f.Write(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write = %v, want DeadlineExceeded", err)
	}
	if _, err := guard.RaiseFile(ctx, path, 6, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a raise = %v, want DeadlineExceeded", err)
	}
	done := make(chan error)
	go func() { done <- f.Write(context.Background(), []byte("x")) }()
	free()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// hold takes the system's lock on a file, and returns a function that releases it.
func hold(t *testing.T, path string) (free func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// A waiting context reports when a call begins to wait under it.
type waiting struct {
	context.Context
	begins func()
}

func (w *waiting) Done() <-chan struct{} {
	w.begins()
	return w.Context.Done()
}

// If a mark is replaced while a raise waits for it, the raise reads the new file.
func TestMarkReplacedWhileWaiting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	raise(t, path, 5)
	raise(t, path+".other", 9)
	free := hold(t, path+".stile")
	ctx := &waiting{t.Context(), sync.OnceFunc(func() {
		if err := os.Rename(path+".other.stile", path+".stile"); err != nil {
			t.Error(err)
		}
		free()
	})}
	if _, err := guard.RaiseFile(ctx, path, 7, nil); !errors.Is(err, guard.ErrStale) {
		t.Errorf("raise 7 = %v, want ErrStale: the mark is 9 now", err)
	}
}

// filed is a balance in a file.
func filed(path string) guardtest.Account {
	return guardtest.Account{
		Read: func(ctx context.Context, token int64) (int, error) {
			f, err := guard.RaiseFile(ctx, path, token, nil)
			if err != nil {
				return 0, err
			}
			text, err := f.Read(ctx)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(string(text))
		},
		Write: func(ctx context.Context, token int64, balance int) error {
			f, err := guard.RaiseFile(ctx, path, token, nil)
			if err != nil {
				return err
			}
			return f.Write(ctx, []byte(strconv.Itoa(balance)))
		},
	}
}

func TestFileLateWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	guarded, plain := filepath.Join(dir, "guarded"), filepath.Join(dir, "plain")
	balance := func(path string) int {
		n, err := strconv.Atoi(contents(t, path))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	write := func(path string, balance int) error { return os.WriteFile(path, []byte(strconv.Itoa(balance)), 0o644) }
	if err := errors.Join(write(guarded, 100), write(plain, 100)); err != nil {
		t.Fatal(err)
	}
	guardtest.LateIsRefused(t, guardtest.Account{
		Read:  func(context.Context, int64) (int, error) { return balance(plain), nil },
		Write: func(_ context.Context, _ int64, n int) error { return write(plain, n) },
	}, filed(guarded), func(ofGuarded bool) int {
		if ofGuarded {
			return balance(guarded)
		}
		return balance(plain)
	})
}

func TestFileOfMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, []byte("100"), 0o600); err != nil {
		t.Fatal(err)
	}
	guardtest.Many(t, filed(path), func() int {
		n, err := strconv.Atoi(contents(t, path))
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
}
