// Package child is for programs that start themselves again, as processes that do not outlive them.
package child

import (
	"os"
	"runtime"
)

// Self returns the running program's own file, even if the file was replaced since the start.
func Self() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
