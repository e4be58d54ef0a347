package claims

import (
	"syscall"
	"time"
	"unsafe"
)

// slept returns how long the machine has been suspended since it booted, and the time between two readings more.
func slept() time.Duration {
	const monotonic, boottime = 1, 7 // CLOCK_MONOTONIC and CLOCK_BOOTTIME, which differ by the time asleep
	awake := readClock(monotonic)
	return readClock(boottime) - awake
}

func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
