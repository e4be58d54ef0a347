package wire

import (
	"syscall"
	"time"
	"unsafe"
)

// Now returns the time since the machine booted, including the time that it slept. During sleep Go's clock stops, but a
// session in the store does not.
func Now() time.Duration {
	const boottime = 7
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return time.Since(base)
	}
	return time.Duration(ts.Nano())
}

var base = time.Now()
