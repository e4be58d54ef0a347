package child

import (
	"syscall"
)

// OfParent returns the attributes of a child that dies with the thread that starts it.
func OfParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
