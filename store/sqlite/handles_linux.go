package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The places of SQLite's locks: these bytes of the file while its log is open, and this byte of the index.
const (
	sharedFirst, sharedSize = 1<<30 + 2, 510
	indexInUse              = 128
)

// handles are descriptors of this process, one for each of the files, opened by SQLite. They are only read, neither opened
// nor closed, since closing one would release this process's locks on the file.
type handles [3]int

var errOtherLog = errors.New(
	"restart it, and keep the folder whole: never remove the file or its log, and mount the folder, not the file",
)

// shared returns an error if this process or another has the file open with another log than the one at its path. Without
// /proc it finds nothing.
func (f *files) shared() error {
	h, err := f.handles()
	f.open = h
	if err != nil || h == nil {
		return err
	}
	pid, locked := lockedByOther(h[theFile], sharedFirst, sharedSize)
	user, used := lockedByOther(h[theIndex], indexInUse, 1)
	switch {
	case !locked && !used:
		return nil
	case !locked:
		return fmt.Errorf("%s uses the log of lock file %s with another file, which was removed or replaced: %w",
			processName(user), f.paths[theFile], errOtherLog)
	}
	if !used || !sameLog(h[theIndex], h[theLog]) {
		return fmt.Errorf("%s uses lock file %s with another log: %w", processName(pid), f.paths[theFile], errOtherLog)
	}
	return nil
}

// processName names a process that has a lock. The kernel gives no number for a process that this one may not see.
func processName(pid int32) string {
	if pid <= 0 {
		return "a process of another container"
	}
	return "process " + strconv.Itoa(int(pid))
}

// handles finds the descriptors of the file, its log and its index. They are nil if /proc does not show them.
func (f *files) handles() (*handles, error) {
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return nil, nil //nolint:nilerr // nothing can be found out
	}
	names := [3]string{f.real, f.paths[theLog], f.paths[theIndex]}
	var want [3]*syscall.Stat_t
	for i, info := range f.identities {
		want[i], _ = info.Sys().(*syscall.Stat_t)
	}
	h, found := &handles{}, [3]bool{}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) != nil {
			continue // closed meanwhile
		}
		if i := slices.IndexFunc(want[:], func(w *syscall.Stat_t) bool { return st.Ino == w.Ino && st.Dev == w.Dev }); i >= 0 {
			h[i], found[i] = fd, true
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			continue
		}
		if i := slices.Index(names[:], removed(fd)); i >= 0 {
			return nil, fmt.Errorf("this process still has %s %s open, which was removed: close all clients of it first",
				kinds[i], names[i])
		}
	}
	for i, ok := range found {
		if !ok {
			return nil, fmt.Errorf("%s %s was replaced while it was opened", kinds[i], names[i])
		}
	}
	return h, nil
}

// descriptors is the folder of this process's descriptors.
const descriptors = "/proc/self/fd"

// removed returns the former path of a removed file that a descriptor leads to.
func removed(fd int) string {
	leads, err := os.Readlink(filepath.Join(descriptors, strconv.Itoa(fd)))
	if was, deleted := strings.CutSuffix(leads, " (deleted)"); err == nil && deleted {
		return was
	}
	return ""
}

// lockedByOther reports whether another process has a lock on some bytes of a file, and which one.
func lockedByOther(fd int, first, size int64) (pid int32, locked bool) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: first, Len: size}
	if err := syscall.FcntlFlock(uintptr(fd), syscall.F_GETLK, &lock); err != nil {
		return 0, false
	}
	return lock.Pid, lock.Type != syscall.F_UNLCK
}

// sameLog reports whether the index, which another process uses too, belongs to the log. Both have the same two random
// numbers, drawn whenever the log restarts. It returns true if the log restarts meanwhile, or is empty.
func sameLog(index, log int) bool {
	var before, after [48]byte
	var begin [32]byte
	if !readAt(index, before[:]) {
		return true
	}
	has := readAt(log, begin[:])
	if !readAt(index, after[:]) || before != after || binary.NativeEndian.Uint32(before[16:]) == 0 {
		return true
	}
	return has && bytes.Equal(before[32:40], begin[16:24])
}

func readAt(fd int, into []byte) bool {
	n, err := syscall.Pread(fd, into, 0)
	return err == nil && n == len(into)
}
