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

// A futexSignal wakes the waiters of other processes. It is a word in the index of the log, which all processes that have
// the file open share: a waiter sleeps on the word, and another process makes the kernel wake it (see futex(2)). The word is
// SQLite's count of changes, which a signal only reads. A lost wakeup only delays a waiter until its next poll.
//
// Without it, two processes on one name make 0.23 of the locks, and the clients take 2.0 to 2.6 times the processor for
// each.
type futexSignal struct {
	memory []byte         // of the index
	place  unsafe.Pointer // in it
	looked atomic.Uint32  // the count at the last poll
	most   time.Duration  // how long one sleep lasts
}

// changesAt is the offset of the count of changes in the index: see the WAL-index header in the description of SQLite's file
// format.
const changesAt = 8

const (
	sleepsFor  = 5 * time.Second       // one sleep at most
	wakesEvery = 10 * time.Millisecond // for waking a client that must end
)

const (
	futexWait = 9 // FUTEX_WAIT_BITSET
	futexWake = 10
	everybody = 1<<31 - 1
)

// openSignal returns the signal of opened files; nil if the system does not show SQLite's index.
func (f *files) openSignal() *futexSignal {
	if f.open == nil {
		return nil
	}
	return signalIn(f.open[theIndex])
}

// signalIn returns the signal in an open index.
func signalIn(index int) *futexSignal {
	memory, err := syscall.Mmap(index, 0, syscall.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return &futexSignal{memory: memory, place: unsafe.Pointer(&memory[changesAt]), most: sleepsFor}
}

// take unmaps the index, when no goroutine listens any more.
func (b *futexSignal) take() error { return syscall.Munmap(b.memory) }

// bits returns the futex mask under which clients sleep, so that a wakeup reaches few others.
func bits(clients ...string) (mask uintptr) {
	for _, c := range clients {
		h := fnv.New32a()
		h.Write([]byte(c)) //nolint:errcheck // it never fails
		mask |= 1 << (h.Sum32() % 32)
	}
	return mask
}

// Wake wakes the listeners of these clients. The call fails only for an invalid address.
func (b *futexSignal) Wake(clients []string) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(b.place), futexWake, everybody, 0, 0, bits(clients...))
}

// BeforePoll notes that a poll is about to see all changes up to now, and returns SQLite's count of them.
func (b *futexSignal) BeforePoll() (changes uint32, known bool) {
	changes, known = b.count()
	b.looked.Store(changes)
	return changes, known
}

// Listen calls woken when somebody wakes the client, until ctx ends or wanted returns false. It also calls woken for a
// change that no poll has seen yet: the wakeup for it may have come between two sleeps. It calls recheck before each sleep
// that begins after a change: if others change the database and send no wakeup, this is once for each sleep.
func (b *futexSignal) Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func()) {
	ended, woke := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() { b.wake(client, ended); close(woke) })
	defer func() {
		close(ended)
		if !stop() {
			<-woke // the index is not used after it is unmapped
		}
	}()
	told := b.looked.Load()
	first, seen := true, uint32(0) // whether to call recheck at any count, and the count at the last call
	for ctx.Err() == nil && wanted() {
		count, ok := b.count()
		if ok && (first || seen != count) {
			first, seen = false, count
			recheck()
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
			count, _ = b.count() // the poll will see all of these changes
		}
		told = count
		woken()
		runtime.Gosched() // on this thread, which runs: another one would have to be woken
	}
}

// wake wakes a client until its sleep has ended, since the sleep may be about to begin.
func (b *futexSignal) wake(client string, ended <-chan struct{}) {
	for {
		b.Wake([]string{client})
		select {
		case <-ended:
			return
		case <-time.After(wakesEvery):
		}
	}
}

// sleep returns true when somebody has woken the client. It returns false after some time, and at once if the count has
// changed.
func (b *futexSignal) sleep(count uint32, mask uintptr) bool {
	until := syscall.NsecToTimespec(monotonic() + int64(b.most))
	_, _, errno := syscall.Syscall6(syscall.SYS_FUTEX, uintptr(b.place), futexWait, uintptr(count),
		uintptr(unsafe.Pointer(&until)), 0, mask)
	return errno == 0
}

// count reads SQLite's count of changes. It returns false if the index was cut off, as SQLite does when it opens an index
// that no process had open.
func (b *futexSignal) count() (n uint32, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { ok = recover() == nil }()
	return atomic.LoadUint32((*uint32)(b.place)), true
}

// monotonic returns the time of the clock by which the kernel ends a sleep. Every kernel has it.
func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
