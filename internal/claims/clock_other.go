//go:build !linux

package claims

import "time"

// slept returns 0: on this system a suspension is found out only when the store refuses a renewal.
func slept() time.Duration { return 0 }
