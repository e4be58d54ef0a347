//go:build !linux

package wire

import "time"

// Now returns the time since the process began. On this system it does not see that the machine slept.
func Now() time.Duration { return time.Since(base) }

var base = time.Now()
