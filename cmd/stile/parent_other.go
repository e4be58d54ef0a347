//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

func ofParent() *syscall.SysProcAttr { return nil }

// adopts reports whether the descendants of this process become its children when their parents end.
func adopts() bool { return os.Getpid() == 1 }
