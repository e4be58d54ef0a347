package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stilelock/stile/store/sqldb"
)

// DefaultPath returns the lock file of the stile command without a named store: stile/locks.db under $XDG_STATE_HOME, or
// under .local/state in the home directory.
func DefaultPath() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the XDG specification ignores a relative path
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the lock file: neither XDG_STATE_HOME nor a home directory is set: %w", err)
		}
		if !filepath.IsAbs(home) { // a relative path would differ between processes
			return "", fmt.Errorf("no place for the lock file: the home directory %q is not an absolute path", home)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "stile", "locks.db"), nil
}

// checkPath returns the absolute path, and makes its directory if create is true. The error says why no lock file can be
// there.
func checkPath(path string, create bool) (string, error) {
	switch {
	case path == "":
		return "", errors.New("the path of the lock file is empty")
	case path == ":memory:":
		return "", errors.New("sqlite cannot share :memory: between processes; use memory:// for locks in one process")
	case strings.ContainsRune(path, 0):
		return "", errors.New("the path of the lock file has a zero byte")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("lock file %q: %w", path, err)
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		return "", fmt.Errorf("lock file %s is a directory", abs)
	} else if err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("lock file %s is not a regular file", abs)
	} else if err == nil && names(info) > 1 {
		// SQLite names its log after the path, so a process that uses the other name has a log of its own.
		return "", fmt.Errorf("lock file %s has another name (a hard link), by which its locks would not be seen", abs)
	}
	dir := filepath.Dir(abs)
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("the directory of lock file %s cannot be made: %w", abs, err)
		}
	}
	if kind := networkFS(abs, dir); kind != "" {
		return "", fmt.Errorf("lock file %s is on a network file system (%s), where SQLite cannot lock: use a local disk, or a server such as Redis", abs, kind)
	}
	return abs, nil
}

// making prevents a driver of this process from opening a file with SQLite while another one still has the descriptor that
// made it: closing that would release SQLite's locks.
var making sync.Mutex

// makeFile makes the file if it is missing and create is true, and returns its identity.
func makeFile(path string, create bool) (fs.FileInfo, error) {
	making.Lock()
	defer making.Unlock()
	if !create {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("lock file %s does not exist: %w", path, sqldb.ErrMissing)
		case err != nil:
			return nil, fmt.Errorf("lock file %s: %w", path, err)
		}
		return info, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("lock file %s cannot be made: %w", path, err)
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("lock file %s cannot be made: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("lock file %s: %w", path, err)
	}
	return info, nil
}
