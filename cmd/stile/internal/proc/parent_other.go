//go:build unix && !linux

package proc

import "os"

// Adopts reports whether the descendants of this process become its children when their parents end.
func Adopts() bool { return os.Getpid() == 1 }
