//go:build !linux

package claims

import "time"

// slept returns 0: on this system only a refused renewal shows a suspension.
func slept() time.Duration { return 0 }
