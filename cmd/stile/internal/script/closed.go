package script

import (
	"os"

	"golang.org/x/sys/unix"
)

// closed reports whether stdin, stdout or stderr was closed when stile was started. The Go runtime opens /dev/null in place
// of a closed one, for reading and writing, so that no other file gets its number; a shell's >/dev/null is open only for
// writing.
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
