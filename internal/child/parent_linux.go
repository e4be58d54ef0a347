package child

import (
	"syscall"
)

// OfParent has a child die with the thread that starts it.
func OfParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
