package sqlite

import (
	"context"
	"hash/fnv"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A bell wakes the waiters of other processes. It is a place in the index of the log, which all processes that have the file
// open share: one sleeps there, and another has the kernel wake it (a futex). The place is SQLite's count of changes, which a
// bell only reads. A ring that is lost delays a waiter until its next poll, and does no more.
//
// Without it, two processes on one name make 0.23 of the locks, and the clients take 2.0 to 2.6 times the processor for each.
type bell struct {
	memory []byte         // of the index
	place  unsafe.Pointer // in it
	looked atomic.Uint32  // the count when the database was last looked at
	most   time.Duration  // how long one sleep lasts
}

// changesAt is where the index counts changes: see the WAL-index header in the description of SQLite's file format.
const changesAt = 8

const (
	sleepsFor  = 5 * time.Second       // one sleep at the bell, at the most
	wakesEvery = 10 * time.Millisecond // who sleeps and is to end
)

const (
	futexWait = 9 // FUTEX_WAIT_BITSET
	futexWake = 10
	everybody = 1<<31 - 1
)

// hang returns the bell of files that were opened; nil if the system does not tell where SQLite has its index.
func (f *files) hang() *bell {
	if f.open == nil {
		return nil
	}
	return bellIn(f.open[theIndex])
}

// bellIn returns the bell in an open index.
func bellIn(index int) *bell {
	memory, err := syscall.Mmap(index, 0, syscall.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return &bell{memory: memory, place: unsafe.Pointer(&memory[changesAt]), most: sleepsFor}
}

// take takes the bell down, when nobody hears it any more.
func (b *bell) take() error { return syscall.Munmap(b.memory) }

// bits are those that clients sleep under, so that a ring wakes few others.
func bits(clients ...string) (mask uintptr) {
	for _, c := range clients {
		h := fnv.New32a()
		h.Write([]byte(c)) //nolint:errcheck // it has none
		mask |= 1 << (h.Sum32() % 32)
	}
	return mask
}

// Ring wakes those who hear for these clients. The call fails only for an address that is none.
func (b *bell) Ring(clients []string) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(b.place), futexWake, everybody, 0, 0, bits(clients...))
}

// Looks notes that all changes up to now are about to be looked at, and returns SQLite's count of them.
func (b *bell) Looks() (changes uint32, known bool) {
	changes, known = b.count()
	b.looked.Store(changes)
	return changes, known
}

// Hear calls rung when somebody rings for the client, until ctx ends or nobody wants that any more. It calls rung too for a
// change that nobody has looked at yet: the ring for it may have come while nobody slept. It calls stirred before each sleep that
// begins after a change: while others change the database and nobody rings, that is once for each sleep.
func (b *bell) Hear(ctx context.Context, client string, wanted func() bool, rung, stirred func()) {
	ended, woke := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() { b.wake(client, ended); close(woke) })
	defer func() {
		close(ended)
		if !stop() {
			<-woke // nobody rings at a bell that is taken down
		}
	}()
	told := b.looked.Load()
	stirs, seen := true, uint32(0) // whether to call stirred whatever the count is, and the count when it last did
	for ctx.Err() == nil && wanted() {
		count, ok := b.count()
		if ok && (stirs || seen != count) {
			stirs, seen = false, count
			stirred()
		}
		switch {
		case !ok:
			select {
			case <-time.After(b.most):
			case <-ctx.Done():
			}
			continue
		case count != told && count != b.looked.Load():
		case !b.sleep(count, bits(client)):
			continue
		default:
			count, _ = b.count() // all that the look will see
		}
		told = count
		rung()
		runtime.Gosched() // on this thread, which runs: another one would have to be woken
	}
}

// wake rings for a client until its sleep has ended: it may be about to begin.
func (b *bell) wake(client string, ended <-chan struct{}) {
	for {
		b.Ring([]string{client})
		select {
		case <-ended:
			return
		case <-time.After(wakesEvery):
		}
	}
}

// sleep returns true when somebody has rung. It returns false after some time, and at once if there were changes since they
// were counted.
func (b *bell) sleep(count uint32, mask uintptr) bool {
	until := syscall.NsecToTimespec(monotonic() + int64(b.most))
	_, _, errno := syscall.Syscall6(syscall.SYS_FUTEX, uintptr(b.place), futexWait, uintptr(count),
		uintptr(unsafe.Pointer(&until)), 0, mask)
	return errno == 0
}

// count reads SQLite's count of changes. It is false if the index was cut off, which SQLite does when it opens one that no
// process had open any more.
func (b *bell) count() (n uint32, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { ok = recover() == nil }()
	return atomic.LoadUint32((*uint32)(b.place)), true
}

// monotonic is the clock by which the kernel ends a sleep. Every kernel has it.
func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
