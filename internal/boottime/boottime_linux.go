package boottime

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/stilelock/stile/internal/mount"
)

const clockBoottime = 7

func now() time.Duration {
	ts, ok := read()
	if !ok {
		return monotonic()
	}
	ahead, _ := offset()
	return ts - ahead
}

func read() (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}

// shared reports whether the system has the clock, and its distance from the host's clock is known.
func shared() bool {
	_, clock := read()
	_, known := offset()
	return clock && known
}

// offset returns by how much the clock of this process's time namespace is ahead of the host's. It is fixed for a process in
// the namespace, and unknown without /proc.
var offset = sync.OnceValues(func() (ahead time.Duration, known bool) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		_, proc := os.Lstat("/proc/self/stat")
		_, namespaces := os.Lstat("/proc/self/ns/time")
		return 0, proc == nil && namespaces != nil // the kernel has no time namespaces
	}
	if err != nil || !inOwn() {
		return 0, false
	}
	return parseOffset(text)
})

// inOwn reports whether this process is in the namespace of its future children, which timens_offsets describes. The two
// differ in a process that has left for a new namespace and has not yet executed a program.
func inOwn() bool {
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		return false
	}
	children, err := os.Readlink("/proc/self/ns/time_for_children")
	return err == nil && own == children
}

// parseOffset reads the line of the boot clock in the format of /proc/self/timens_offsets.
func parseOffset(text []byte) (ahead time.Duration, known bool) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) != 3 || string(fields[0]) != "boottime" {
			continue
		}
		seconds, bad := time.ParseDuration(string(fields[1]) + "s")
		nanoseconds, worse := time.ParseDuration(string(fields[2]) + "ns")
		return seconds + nanoseconds, bad == nil && worse == nil
	}
	return 0, false
}

const (
	bootFolder = "/proc/sys/kernel/random"
	bootFile   = bootFolder + "/boot_id"
	procMagic  = 0x9fa0
)

// An id without its clock would let processes compare different clocks.
var id = sync.OnceValue(func() string {
	text, err := os.ReadFile(bootFile)
	if err != nil || !shared() || !kernels() {
		return ""
	}
	return string(bytes.TrimSpace(text))
})

// kernels reports whether the boot id is the kernel's own: no mount hides it, neither a file of another file system nor a
// file of proc, such as random/uuid.
func kernels() bool {
	var st syscall.Statfs_t
	if syscall.Statfs(bootFile, &st) != nil || uint32(st.Type) != procMagic {
		return false
	}
	file := mount.ID(bootFile)
	return file != "" && file == mount.ID(bootFolder)
}
