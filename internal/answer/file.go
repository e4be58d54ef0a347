//go:build unix

package answer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stilelock/stile/internal/exit"
)

// A File is a file that a flag names for something that takes a while to find out. What would keep it from being
// written is looked for before that.
type File struct {
	Flag, Path string // no path means that nobody wants the file
}

// The modes of access(2), which package syscall does not name.
const (
	canEnter = 1
	canWrite = 2
)

// Check returns why the file cannot be written, or nil.
func (o *File) Check(given bool) error {
	if o.Path == "" {
		if given {
			return exit.Usage("--%s is empty: it is the file that is to be written", o.Flag)
		}
		return nil
	}
	info, err := os.Stat(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir := filepath.Dir(o.Path); syscall.Access(dir, canWrite|canEnter) != nil {
			return exit.Usage("--%s %s: %s is no folder that you can write into", o.Flag, o.Path, dir)
		}
		return nil
	case err != nil:
		return exit.Usage("--%s %s: %w", o.Flag, o.Path, err)
	case info.IsDir():
		return exit.Usage("--%s %s: it is a folder; give the name of a file", o.Flag, o.Path)
	case syscall.Access(o.Path, canWrite) != nil:
		return exit.Usage("--%s %s: there is such a file, and you cannot write it", o.Flag, o.Path)
	}
	return nil
}

// Write writes the file. One that was there is replaced.
func (o *File) Write(text []byte) error {
	if o.Path == "" {
		return nil
	}
	if err := os.WriteFile(o.Path, text, 0o644); err != nil {
		return exit.With(exit.Output, err)
	}
	return nil
}
