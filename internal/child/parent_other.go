//go:build unix && !linux

package child

import (
	"syscall"
)

// OfParent has a process live on when its parent ends, since this system offers nothing else.
func OfParent() *syscall.SysProcAttr { return nil }
