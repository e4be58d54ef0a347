//go:build unix && !linux

package child

import (
	"syscall"
)

// OfParent returns nil: on this system a child outlives its parent.
func OfParent() *syscall.SysProcAttr { return nil }
