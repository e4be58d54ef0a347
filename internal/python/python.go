// Package python runs programs of the client for Python in clients/python, for the tests of several packages.
package python

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// interpreter is Debian's, for which Debian has the drivers of databases.
const interpreter = "/usr/bin/python3"

// Folder returns the folder clients/python of this repository. It looks in the working directory and above.
func Folder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		folder := filepath.Join(dir, "clients", "python")
		if _, err := os.Stat(filepath.Join(folder, "stile", "__init__.py")); err == nil {
			return folder, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("the folder clients/python is not there")
		}
	}
}

// Command returns the command of Python with arguments; it finds the client there. Its working directory is clients/python.
func Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	folder, err := Folder()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(interpreter); err != nil {
		return nil, fmt.Errorf("%w: Debian has it in the package python3", err)
	}
	cmd := exec.CommandContext(ctx, interpreter, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1")
	return cmd, nil
}
