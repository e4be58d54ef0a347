//go:build unix

package awake

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// enter waits for the lock of a file, which the kernel frees when a process ends. leave releases the lock. leave is nil if
// others have the lock for longer than most.
func enter(path string, most time.Duration) (leave func(), err error) {
	f, err := os.Open(path) // the file may be another user's: a reader may lock it
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	}
	if err != nil {
		return nil, err
	}
	over, again := For(most), time.NewTicker(step)
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		case Over(over):
			f.Close()
			return nil, nil
		}
		<-again.C
	}
}
