package claims

import (
	"syscall"
	"time"
	"unsafe"
)

// slept returns how long the machine has slept since it booted, plus the time between two readings.
func slept() time.Duration {
	const monotonic, boottime = 1, 7 // which differ by the sleep
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
