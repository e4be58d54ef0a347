//go:build unix && !linux

package main

import "syscall"

func ofParent() *syscall.SysProcAttr { return nil }
