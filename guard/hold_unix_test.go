//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package guard_test

import (
	"os"
	"syscall"
	"testing"
)

// hold takes the system's lock on a file, and returns what frees it.
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
