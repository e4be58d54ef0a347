//go:build unix

package awake

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// enter waits for the lock of a file, which the kernel takes back from a process that ends. It returns what releases the lock.
func enter(path string) (leave func(), err error) {
	f, err := os.Open(path) // the file may be another user's: who reads it may lock it
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	}
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EINTR {
			f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
	}
}
