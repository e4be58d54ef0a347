//go:build !linux

package boottime

import "time"

func now() time.Duration { return monotonic() }

func shared() bool { return false }

func id() string { return "" }
