//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package guard

import (
	"errors"
	"os"
)

func tryLock(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "flock", Path: f.Name(), Err: errors.ErrUnsupported}
}

func syncDir(string) error { return errors.ErrUnsupported }
