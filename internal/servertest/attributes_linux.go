package servertest

import "syscall"

// attributes makes the kernel kill the server when the test's process dies, however it dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
