package sqlite

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A folder saves checks of the files in it. A system call that makes, removes or renames an entry marks the folder with the
// time. So the files are unchanged while the path leads to the same folder with the same mark. The mark is the time of the
// folder's own last change, which no program can set.
//
// The mark counts in ticks of the kernel's clock, so a second change in one tick leaves no trace. So a mark is trusted only
// if the clock had moved on when the files were checked.
type folder struct {
	path   string
	marked bool                  // the file system is known to mark its folders
	last   atomic.Pointer[sight] // nil until the files were checked
}

// A sight is the state of a folder when all files in it were right.
type sight struct {
	mark mark
	at   time.Time // when the files were checked
}

// A mark identifies a folder, and a state of it.
type mark struct {
	device, inode      uint64
	seconds, remainder int64 // when an entry last came or went
}

const (
	// tick is longer than any tick of a kernel's clock.
	tick = 20 * time.Millisecond

	// coarseTick is the tick of file systems that keep whole seconds. Such a mark has no remainder.
	coarseTick = 2 * time.Second

	// sightLasts bounds the trust in a mark. A mount over a single file does not mark the folder.
	sightLasts = 100 * time.Millisecond
)

// marking are the magic numbers of file systems that mark their folders. Others, such as file systems in user space, may
// not.
var marking = map[uint32]bool{
	0xef53:     true, // ext2, ext3, ext4
	0x58465342: true, // XFS
	0x9123683e: true, // Btrfs
	0xf2f52010: true, // F2FS
	0x01021994: true, // tmpfs
	0x794c7630: true, // overlay
}

func newFolder(path string) *folder {
	var st syscall.Statfs_t
	err := syscall.Statfs(path, &st)
	return &folder{path: path, marked: err == nil && marking[uint32(st.Type)]}
}

// vouches calls look, which checks the files, unless the folder shows that no entry has come or gone since the last check.
func (f *folder) vouches(look func() error) error {
	if !f.marked {
		return look()
	}
	m, err := readMark(f.path)
	last := f.last.Load()
	if err == nil && last != nil && last.mark == m && time.Since(last.at) < sightLasts {
		return nil
	}
	s := &sight{mark: m, at: time.Now()}
	// The clock is read before the files are checked: a change after the check leaves a later mark.
	settled := err == nil && m.older(coarseClock())
	if err := look(); err != nil {
		return err
	}
	if settled {
		f.last.Store(s)
	}
	return nil
}

func readMark(path string) (mark, error) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	seconds, remainder := st.Ctim.Unix()
	return mark{uint64(st.Dev), st.Ino, seconds, remainder}, err //nolint:unconvert // it is 32 bits wide on some architectures
}

// older reports whether a change from now on leaves another mark.
func (m mark) older(now time.Time, ok bool) bool {
	least := tick
	if m.remainder == 0 {
		least = coarseTick
	}
	return ok && now.Sub(time.Unix(m.seconds, m.remainder)) > least
}

// coarseClock returns the time of the kernel's clock for marks.
func coarseClock() (time.Time, bool) {
	const realtimeCoarse = 5
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, realtimeCoarse, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Unix(ts.Unix()), errno == 0
}
