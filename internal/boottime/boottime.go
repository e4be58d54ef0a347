// Package boottime reads the time since the start of the machine, including its sleep.
//
// Go's monotonic clock stands still while a machine is suspended, and belongs to one process. This clock runs on, is never
// stepped, and on Linux is the same for all processes of a host, containers included.
package boottime

import (
	"sync/atomic"
	"time"
)

// Now returns the time since the machine started, including its sleep. If the system does not report it, Now counts from the
// start of the process, and other processes cannot use it: see [Shared].
func Now() time.Duration { return now() }

// Shared reports whether all processes of the host read the same [Now], until the host starts again.
func Shared() bool { return shared() }

// ID returns a text that stays the same until the machine starts again, and never returns after that. It is empty if the
// system has no such id, or if a mount hides the kernel's own id, as systemd-nspawn and LXC do in their containers: a
// container's id differs from its neighbours' on the same machine.
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
