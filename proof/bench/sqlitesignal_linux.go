package main

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A futexSignal is a number in memory that processes share. A waiter sleeps on it until the kernel wakes it, like stile's
// waiters (store/sqlite/signal_linux.go).
type futexSignal struct {
	memory []byte
	count  *uint32 // a number in the memory
}

func openFutexSignal(path string) (*futexSignal, error) {
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
	return &futexSignal{memory, (*uint32)(unsafe.Pointer(&memory[0]))}, nil
}

func (b *futexSignal) close() { _ = unix.Munmap(b.memory) } // the end of the process unmaps it too

// wakeups returns how often somebody has woken the others.
func (b *futexSignal) wakeups() uint32 { return atomic.LoadUint32(b.count) }

const (
	futexWait = 0
	futexWake = 1
	everybody = 1<<31 - 1

	waitsFor = 100 * time.Millisecond // one sleep, at the most
)

// wake wakes all who wait; a futex that is mapped cannot refuse that.
func (b *futexSignal) wake() {
	atomic.AddUint32(b.count, 1)
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.count)), futexWake, everybody, 0, 0, 0)
}

// wait returns after another wakeup than the caller has seen, after some time, or early: the caller checks in any case.
func (b *futexSignal) wait(seen uint32) {
	most := unix.NsecToTimespec(waitsFor.Nanoseconds())
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.count)), futexWait, uintptr(seen), uintptr(unsafe.Pointer(&most)), 0, 0)
}
