package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// Lookup finds the file to execute for CMD, as a shell would. The error is a [*exit.Status].
func Lookup(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case command == "":
		return "", exit.Usage("CMD is empty")
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrNotFound) && plainFileInPath(command):
		return "", exit.With(exit.NotExecutable,
			fmt.Errorf("%s cannot be executed: it lacks the permission; chmod +x", phrase.Printable(command)))
	case errors.Is(err, exec.ErrDot):
		return "", exit.With(exit.NotFound,
			fmt.Errorf("%s is found only through the current directory in PATH; write ./%[1]s", phrase.Printable(command)))
	case errors.Is(err, exec.ErrNotFound) && !strings.Contains(command, "/"):
		return "", exit.With(exit.NotFound, fmt.Errorf("%s is not found in PATH", phrase.Printable(command)))
	case errors.Is(err, syscall.EISDIR):
		return "", notExecuted(command, syscall.EISDIR)
	}
	return "", exit.With(exit.NotFound, fmt.Errorf("%s is not found", phrase.Printable(command)))
}

// plainFileInPath reports whether a command is in PATH but cannot be executed.
func plainFileInPath(command string) bool {
	if command == "" || strings.Contains(command, "/") {
		return false
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, command)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// notExecuted is the error for a file that the system does not execute.
func notExecuted(command string, errno syscall.Errno) error {
	code, why := exit.NotExecutable, error(errno)
	switch {
	case errno == syscall.ENOENT && !exists(command):
		code = exit.NotFound
	case errno == syscall.ENOENT:
		why = errors.New("there is no such interpreter as it names after #!, or its loader is missing")
	case errno == syscall.ENOEXEC:
		why = errors.New("it is no program of this system, and no script that names its interpreter")
	}
	return exit.With(code, fmt.Errorf("%s cannot be executed: %w", phrase.Printable(command), why))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
