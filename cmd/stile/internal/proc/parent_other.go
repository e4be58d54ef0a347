//go:build unix && !linux

package proc

import (
	"os"
	"syscall"
)

// OfParent has a process live on when its parent ends, since this system offers nothing else.
func OfParent() *syscall.SysProcAttr { return nil }

// Adopts reports whether the descendants of this process become its children when their parents end.
func Adopts() bool { return os.Getpid() == 1 }
