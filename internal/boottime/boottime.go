// Package boottime tells time from the start of the machine, with the time that it slept.
//
// Go's own monotonic clock stands still while a machine is suspended, and belongs to one process. This one goes on, is
// never stepped, and on Linux is the same for all processes of a host.
package boottime

import "time"

// Now returns the time since the machine started, sleep included. Where the system does not tell it, it is the time
// since the process started, and says nothing to another process: see [ID].
func Now() time.Duration { return now() }

// ID returns a text that is the same until the machine starts again, and never again after that. It is empty where the
// system does not tell it, and then [Now] may not be shared between processes.
func ID() string { return id() }

var start = time.Now()

func monotonic() time.Duration { return time.Since(start) }
