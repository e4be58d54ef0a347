package proc

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Adopts reports whether the descendants of this process become its children when their parents end.
func Adopts() bool {
	set := int32(0)
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return os.Getpid() == 1 || err == nil && set != 0
}
