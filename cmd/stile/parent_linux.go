package main

import "syscall"

// ofParent has a child die with the thread that starts it.
func ofParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
