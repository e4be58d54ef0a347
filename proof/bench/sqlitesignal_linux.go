package main

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A passBell is a number in memory that processes share. Who waits sleeps there until the kernel wakes it, as stile's waiters do
// (store/sqlite/signal_linux.go).
type passBell struct {
	memory []byte
	count  *uint32 // in it
}

func openPassBell(path string) (*passBell, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := os.Getpagesize()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &passBell{memory, (*uint32)(unsafe.Pointer(&memory[0]))}, nil
}

func (b *passBell) close() { _ = unix.Munmap(b.memory) } // the end of the process unmaps it too

// rung is how often somebody has rung.
func (b *passBell) rung() uint32 { return atomic.LoadUint32(b.count) }

const (
	futexWait = 0
	futexWake = 1
	everybody = 1<<31 - 1

	hearsFor = 100 * time.Millisecond // one sleep, at the most
)

// ring wakes all who listen; a futex that is mapped cannot refuse that.
func (b *passBell) ring() {
	atomic.AddUint32(b.count, 1)
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.count)), futexWake, everybody, 0, 0, 0)
}

// hear returns once somebody has rung more often, or after some time, or early: the caller looks again in any case.
func (b *passBell) hear(rung uint32) {
	most := unix.NsecToTimespec(hearsFor.Nanoseconds())
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.count)), futexWait, uintptr(rung), uintptr(unsafe.Pointer(&most)), 0, 0)
}
