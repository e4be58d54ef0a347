package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm goes off at a time of the machine's clock, which goes on while the machine sleeps: at once after it wakes, if
// the time came meanwhile. Timers of Go stand still then.
type alarm struct {
	C    <-chan struct{} // has an event when it goes off
	file *os.File
}

func newAlarm() *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		panic("stile: no timer: " + err.Error()) // no descriptors are left, at the start of the process
	}
	c := make(chan struct{}, 1)
	a := &alarm{C: c, file: os.NewFile(uintptr(fd), "alarm")}
	go func() {
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
	return a
}

// set has the alarm go off then, and not at the time that was set before. A time that has passed is now.
func (a *alarm) set(at time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, at.Nanoseconds()))}
	raw, err := a.file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	}
	_ = err // the file is open as long as the process lives
}
