package boottime

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

func now() time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return monotonic()
	}
	return time.Duration(ts.Nano())
}

// An id without the clock that it belongs to would let processes compare clocks of different kinds.
var id = sync.OnceValue(func() string {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errno != 0 || err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
})
