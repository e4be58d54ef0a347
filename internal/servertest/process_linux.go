package servertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// attributes makes the kernel kill the server when the test's process dies, however it dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether all threads of a process are. After SIGSTOP they go on until one of them has been given the
// signal, which on a busy machine takes as long as it waits for a core.
func stopped(pid int) bool {
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(list) == 0 {
		return false
	}
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		state := bytes.LastIndexByte(text, ')') + 2 // after the name, which may have any letters
		if state >= len(text) || text[state] != 'T' {
			return false
		}
	}
	return true
}
