package store

import (
	"os"
	"path/filepath"

	"github.com/stilelock/stile/internal/exit"
)

// RuntimeDir is where handles are kept if no file is given: a folder of this user that is gone after a restart where there
// is one, else the state directory.
func RuntimeDir() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stile"), nil
	}
	return stateDir()
}

// stateDir is where the user's programs keep what outlives a restart.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stile"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.Usage("no place for the handle, since there is no home directory: give --handle FILE")
	}
	if !filepath.IsAbs(home) {
		return "", exit.Usage("no place for the handle, since the home directory %q is not an absolute path: give --handle FILE", home)
	}
	return filepath.Join(home, ".local", "state", "stile"), nil
}
