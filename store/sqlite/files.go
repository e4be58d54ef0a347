package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/mount"
)

// Files are a lock file and SQLite's files beside it: the log, which has the newest claims, and the index of the log, whose
// locks keep writers apart. Processes that do not share all three share no locks.
type files struct {
	paths      [3]string      // of the file as named, of its log and of the index
	real       string         // the file's path without symbolic links: the log is beside it
	folder     *folder        // the folder of real and the log
	identities [3]fs.FileInfo // as SQLite opened them
	open       *handles       // of them; nil if the system does not show them
	patience   time.Duration  // how long another process may take to open its log
}

const (
	theFile = iota
	theLog
	theIndex
)

var kinds = [...]string{"lock file", "the log", "the index of the log"}

// openFiles makes the file if it is missing and create is true.
func openFiles(path string, create bool) (*files, error) {
	identity, err := makeFile(path, create)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("lock file %s: %w", path, err)
	}
	if err := readable(real); err != nil {
		return nil, fmt.Errorf("lock file %s cannot be read: %w (its mode is %04o)", path, err, identity.Mode().Perm())
	}
	dir := filepath.Dir(real)
	f := &files{paths: [3]string{path, real + "-wal", real + "-shm"}, real: real, folder: newFolder(dir)}
	f.identities[theFile] = identity
	whole := mount.ID(dir)
	for i, p := range [...]string{real, f.paths[theLog], f.paths[theIndex]} {
		if id := mount.ID(p); id != "" && whole != "" && id != whole {
			return nil, fmt.Errorf("%s %s is mounted without its folder, so its locks would not be seen elsewhere: "+
				"mount the folder, not the file", kinds[i], p)
		}
	}
	return f, nil
}

// opened waits until it is certain that the processes that have the file open use the same log, and notes which it is.
func (f *files) opened(ctx context.Context) error {
	timeout := time.NewTimer(f.patience)
	defer timeout.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := f.note()
		if err == nil {
			err = f.shared()
		}
		if err == nil {
			return nil
		}
		// Another process that is opening or closing the file has its lock on it, and its log not yet, or no longer.
		select {
		case <-again.C:
		case <-timeout.C:
			return driver.Refused(err)
		case <-ctx.Done():
			return driver.Unsent(context.Cause(ctx))
		}
	}
}

// note notes the present log and index.
func (f *files) note() error {
	for _, i := range [...]int{theLog, theIndex} {
		info, err := os.Stat(f.paths[i])
		if err != nil {
			return fmt.Errorf("%s of lock file %s: %w", kinds[i], f.paths[theFile], err)
		}
		f.identities[i] = info
	}
	return nil
}

// moved returns an error if a path leads to another file now, or to none. A path that cannot be read proves nothing.
func (f *files) moved() error {
	if f.paths[theFile] != f.real {
		return f.checkIdentity() // the folder does not show where a symbolic link leads
	}
	return f.folder.vouches(f.checkIdentity)
}

// checkIdentity is moved, by a check of each file.
func (f *files) checkIdentity() error {
	for i, path := range f.paths {
		info, err := os.Stat(path)
		var what string
		switch {
		case errors.Is(err, fs.ErrNotExist):
			what = "removed"
		case err == nil && !os.SameFile(info, f.identities[i]):
			what = "replaced"
		default:
			continue
		}
		return fmt.Errorf("%s %s was %s while it was open", kinds[i], path, what)
	}
	return nil
}
