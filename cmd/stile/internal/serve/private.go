package serve

import (
	"fmt"
	"io"
	"io/fs"
	"os"
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
	if mode := is.Mode().Perm(); mode&0o077 != 0 {
		return nil, nil, fmt.Errorf("%s has mode %04o, so others can use it; make it chmod 600", path, mode)
	}
	text, err = io.ReadAll(f)
	return text, is, err
}

// unchanged reports whether a file is still as it was. A file that was never read has changed.
func unchanged(path string, was fs.FileInfo) bool {
	is, err := os.Stat(path)
	return err == nil && was != nil && os.SameFile(is, was) && is.Size() == was.Size() &&
		is.ModTime().Equal(was.ModTime()) && is.Mode() == was.Mode()
}
