package child

import (
	"syscall"
)

// OfParent makes a child die with the thread that starts it.
func OfParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
