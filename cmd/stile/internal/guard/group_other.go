//go:build unix && !linux

package guard

import "syscall"

func adoptOrphans() {}

// ofGroup puts a child into a process group of its own, in the foreground of the terminal on stdin if it has one.
func ofGroup(terminal bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: terminal, Ctty: 0}
}
