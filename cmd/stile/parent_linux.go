package main

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ofParent has a child die with the thread that starts it.
func ofParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// adopts reports whether the descendants of this process become its children when their parents end.
func adopts() bool {
	set := int32(0)
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return os.Getpid() == 1 || err == nil && set != 0
}
