package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// An outfile is a file that a flag names for something that takes a while to find out. What would keep it from being
// written is looked for before that.
type outfile struct {
	flag, path string // no path means that nobody wants the file
}

// check tells why the file cannot be written.
func (o *outfile) check(given bool) error {
	if o.path == "" {
		if given {
			return usage("--%s is empty: it is the file that is to be written", o.flag)
		}
		return nil
	}
	info, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir := filepath.Dir(o.path); unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
			return usage("--%s %s: %s is no folder that you can write into", o.flag, o.path, dir)
		}
		return nil
	case err != nil:
		return usage("--%s %s: %w", o.flag, o.path, err)
	case info.IsDir():
		return usage("--%s %s: it is a folder; give the name of a file", o.flag, o.path)
	case unix.Access(o.path, unix.W_OK) != nil:
		return usage("--%s %s: there is such a file, and you cannot write it", o.flag, o.path)
	}
	return nil
}

// write writes the file. One that was there is replaced.
func (o *outfile) write(text []byte) error {
	if o.path == "" {
		return nil
	}
	if err := os.WriteFile(o.path, text, 0o644); err != nil {
		return withStatus(exitOutput, err)
	}
	return nil
}
