//go:build unix && !linux

package servertest

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func stopped(int) bool { return true }
