package guard

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Constants that package syscall lacks. Package unix has them, but is initialized after the libraries of the stores.
const (
	clockBoottime = 7                                      // CLOCK_BOOTTIME
	timerAbsolute = 1                                      // TFD_TIMER_ABSTIME
	timerFlags    = syscall.O_CLOEXEC | syscall.O_NONBLOCK // TFD_CLOEXEC | TFD_NONBLOCK
)

// An itimerspec is the kernel's struct of that name.
type itimerspec struct{ interval, value syscall.Timespec }

// An Alarm goes off at a time of the machine's clock, which runs on while the machine sleeps. If the time comes during the
// sleep, the alarm goes off as soon as the machine wakes. Timers of Go stand still during a sleep.
type Alarm struct {
	C     <-chan struct{} // has an event when it goes off
	file  *os.File
	ended chan struct{} // closed when its goroutine has ended
}

// NewAlarm returns an alarm that is not set. It fails if no descriptors are left.
func NewAlarm() (*Alarm, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, timerFlags, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	c := make(chan struct{}, 1)
	a := &Alarm{C: c, file: os.NewFile(fd, "alarm"), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		var count [8]byte
		for {
			if _, err := a.file.Read(count[:]); err != nil {
				return
			}
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// Set sets the alarm, in place of an earlier time. For a time that has passed it goes off now.
func (a *Alarm) Set(at time.Duration) {
	spec := itimerspec{value: syscall.NsecToTimespec(max(1, at.Nanoseconds()))}
	raw, err := a.file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			// It only fails for an invalid time, which spec never is.
			_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, timerAbsolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
		})
	}
	_ = err // the file is open until Close
}

// Close frees the alarm's resources. The alarm does not go off any more. Closing it twice is harmless.
func (a *Alarm) Close() {
	_ = a.file.Close() // ends the read too
	<-a.ended
}
