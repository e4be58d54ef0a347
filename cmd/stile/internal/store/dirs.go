package store

import (
	"os"
	"path/filepath"

	"github.com/stilelock/stile/internal/exit"
)

// RuntimeDir returns the folder for handles without a given file: the user's folder that ends with a restart, if the system
// has one, else the state directory.
func RuntimeDir() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stile"), nil
	}
	return stateDir()
}

// stateDir returns the folder in which the user's programs keep files that outlive a restart.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stile"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.Usage("no place for the handle, since there is no home directory: give --handle FILE")
	}
	if !filepath.IsAbs(home) {
		return "", exit.Usage("no place for the handle, since the home directory %q is not an absolute path: give --handle FILE",
			home)
	}
	return filepath.Join(home, ".local", "state", "stile"), nil
}
