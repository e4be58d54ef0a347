package guard

import "syscall"

const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER

// adoptOrphans makes the process the parent of its descendants whose own parents end.
func adoptOrphans() {
	// If it fails, the init process becomes their parent, and reaps them too.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0)
}

// ofGroup puts a child into a process group of its own, in the foreground of the terminal on stdin if it has one, and makes
// it die with the thread that starts it.
func ofGroup(terminal bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: terminal, Ctty: 0, Pdeathsig: syscall.SIGKILL}
}
