package script

import (
	"os"

	"golang.org/x/sys/unix"
)

// closed reports whether a file of stdin, stdout and stderr was closed when stile was started. The Go runtime opens
// /dev/null in its place, for reading and writing, so that no other file gets the number; a shell's >/dev/null is open for
// writing only.
func closed(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return true
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	null, err := os.Stat(os.DevNull)
	info, e := f.Stat()
	return err == nil && e == nil && os.SameFile(null, info)
}
