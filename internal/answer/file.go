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

// A File is an output file that a flag names. Check finds a reason against writing it before the program begins its work.
type File struct {
	Flag, Path string // empty: no file is wanted
}

// The modes of access(2), which package syscall lacks.
const (
	canEnter = 1
	canWrite = 2
)

// Check returns an error if the file cannot be written. given reports whether the command line has the flag.
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

// Write writes the file, and replaces an existing one.
func (o *File) Write(text []byte) error {
	if o.Path == "" {
		return nil
	}
	if err := os.WriteFile(o.Path, text, 0o644); err != nil {
		return exit.With(exit.Output, err)
	}
	return nil
}
