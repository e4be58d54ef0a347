//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package guard

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the system's lock on an open file, and reports false if another has it. It is free when the file is closed,
// so also when the process ends.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// syncDir makes the names in a directory last through a power loss.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
