package script

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stilelock/stile/internal/exit"
)

// A handle that finds no room is worth another try, and one in a folder of somebody else is not.
func TestHandleUnwritten(t *testing.T) {
	for errno, want := range map[syscall.Errno]int{
		syscall.ENOSPC: exit.Output, syscall.EDQUOT: exit.Output, syscall.EACCES: exit.BadUsage, syscall.EROFS: exit.BadUsage,
	} {
		err := unwritten(fmt.Errorf("no handle: %w", &fs.PathError{Op: "write", Path: "f", Err: errno}))
		if s, ok := errors.AsType[*exit.Status](err); !ok || s.Code != want || !errors.Is(err, errno) {
			t.Errorf("%v: %v, %+v; want status %d", errno, err, s, want)
		}
	}
}
