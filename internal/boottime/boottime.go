// Package boottime reads the time from the start of the machine, with the time that it slept.
//
// Go's own monotonic clock stands still while a machine is suspended, and belongs to one process. This one goes on, is
// never stepped, and on Linux is the same for all processes of a host, containers included.
package boottime

import (
	"sync/atomic"
	"time"
)

// Now returns the time since the machine started, sleep included. Where the system does not tell it, it is the time
// since the process started, and says nothing to another process: see [Shared].
func Now() time.Duration { return now() }

// Shared reports whether all processes of the host read the same [Now], until the host starts again.
func Shared() bool { return shared() }

// ID returns a text that is the same until the machine starts again, and never again after that. It is empty where
// the system has no such id, and where a mount hides the kernel's own id, as systemd-nspawn and LXC do for their
// containers: the id of a container differs from the ids of its neighbours on the same machine.
func ID() string {
	if other := pretended.Load(); other != nil {
		return *other
	}
	return id()
}

var pretended atomic.Pointer[string]

// Pretend makes [ID] return another id until undo is called, for tests of a boot.
func Pretend(id string) (undo func()) {
	before := pretended.Swap(&id)
	return func() { pretended.Store(before) }
}

var start = time.Now()

func monotonic() time.Duration { return time.Since(start) }
