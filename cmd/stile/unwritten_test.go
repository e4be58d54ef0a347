package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// A handle that finds no room is worth another try, and one in a folder of somebody else is not.
func TestHandleUnwritten(t *testing.T) {
	for errno, want := range map[syscall.Errno]int{
		syscall.ENOSPC: exitOutput, syscall.EDQUOT: exitOutput, syscall.EACCES: exitUsage, syscall.EROFS: exitUsage,
	} {
		err := unwritten(fmt.Errorf("no handle: %w", &fs.PathError{Op: "write", Path: "f", Err: errno}))
		if s, ok := errors.AsType[*status](err); !ok || s.code != want || !errors.Is(err, errno) {
			t.Errorf("%v: %v, %+v; want status %d", errno, err, s, want)
		}
	}
}
