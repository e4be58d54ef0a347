//go:build unix && !linux

package child

import (
	"syscall"
)

// OfParent changes nothing: a child outlives its parent, since this system offers nothing else.
func OfParent() *syscall.SysProcAttr { return nil }
