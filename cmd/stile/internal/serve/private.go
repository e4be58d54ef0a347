package serve

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// readPrivate reads a file with secrets, and returns its fs.FileInfo. It refuses a file that others than its owner may use.
func readPrivate(path string) (text []byte, is fs.FileInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if is, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if owner := is.Sys().(*syscall.Stat_t).Uid; !private(is.Mode(), int(owner), os.Geteuid()) {
		return nil, nil, fmt.Errorf("%s has mode %04o, so others can use it; make it chmod 600", path, is.Mode().Perm())
	}
	text, err = io.ReadAll(f)
	return text, is, err
}

// private reports whether only its owner may use a file. The group may read root's files, since the service cannot own them: so
// Kubernetes hands out secrets, and PostgreSQL has the same rule for its keys.
func private(mode fs.FileMode, owner, self int) bool {
	if owner == 0 && self != 0 {
		return mode.Perm()&0o037 == 0
	}
	return mode.Perm()&0o077 == 0
}

// unchanged reports whether a file is still as it was. A file that was never read has changed.
func unchanged(path string, was fs.FileInfo) bool {
	is, err := os.Stat(path)
	return err == nil && was != nil && os.SameFile(is, was) && is.Size() == was.Size() &&
		is.ModTime().Equal(was.ModTime()) && is.Mode() == was.Mode()
}
