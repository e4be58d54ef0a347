package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/server"
)

// mostAudit is the size in bytes at which a file of the audit becomes FILE.1, in place of the earlier one. So both together
// have at most twice as much.
const mostAudit = 64 << 20

// mostBehind is the most lines that wait for the disk, about 1 MB.
const mostBehind = 4096

// An auditFile takes events as lines of JSON. Its file may be renamed meanwhile, by logrotate or by hand: the next line goes
// into a new file of the same name. Only one service writes a file, since two would rename each other's.
//
// One goroutine writes all lines in the order of their events. Only a break waits for its line. Other requests go on while the
// disk stands still, and after mostBehind of them their lines are lost.
type auditFile struct {
	path  string
	locks bool        // also the locks that are taken and released
	warn  func(error) // takes a fault of the file, once per change of the fault
	most  int64       // bytes; see mostAudit

	queue chan *auditLine
	lost  atomic.Int64 // lines since the last that was written
	fault atomic.Pointer[error]
	end   func()        // ends the writing
	ends  chan struct{} // closed by end
	over  chan struct{} // closed when the writing has ended

	mu   sync.Mutex // guards the fields below
	f    *os.File   // nil after a failed opening
	torn bool       // it ends within a line
	said string     // the last warning
}

// auditFlags are the flags of the audit.
type auditFlags struct {
	file  string
	locks bool
}

func (w *auditFlags) flags(set *pflag.FlagSet) {
	set.StringVar(&w.file, "audit", "",
		"a `file` that gets a line of JSON for each break and each refusal; without its line a break is refused")
	set.BoolVar(&w.locks, "audit-locks", false, "also write each lock that is taken or released")
}

// audit opens the file for a service with some options. closes closes it when the service has ended.
func (w *auditFlags) audit(o *server.Options) (closes func(), err error) {
	switch {
	case w.file == "" && w.locks:
		return nil, exit.Usage("--audit-locks needs --audit FILE")
	case w.file == "":
		return func() {}, nil
	}
	a, err := openAudit(w.file, w.locks, func(err error) { speech.Warn("warning: the audit: %v", err) })
	if err != nil {
		return nil, exit.Usage("--audit: %w", err)
	}
	o.Audit = a.take
	return a.close, nil
}

// openAudit opens a file for events, or creates it with mode 0600.
func openAudit(path string, locks bool, warn func(error)) (*auditFile, error) {
	a := &auditFile{
		path: path, locks: locks, warn: warn, most: mostAudit, queue: make(chan *auditLine, mostBehind), ends: make(chan struct{}),
		over: make(chan struct{}),
	}
	a.end = sync.OnceFunc(func() { close(a.ends) })
	if err := a.openLocked(); err != nil {
		return nil, err
	}
	go a.write()
	return a, nil
}

// An auditLine is the line of an event.
type auditLine struct {
	text    []byte
	written chan error // takes the outcome of a break's line, which goes to the disk; nil for other lines
}

// errAuditEnded is the error of a break after the end of the audit.
var errAuditEnded = errors.New("the audit has ended")

// take is a [server.Options.Audit]. Before it returns, the line of a break is on the disk. For other events it returns the outcome of
// the line that was written last, or that their line is lost.
func (a *auditFile) take(e server.Event) error {
	if !a.locks && (e.Action == server.Took || e.Action == server.Released) {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l := &auditLine{text: append(line, '\n')}
	if e.Action != server.Broke && e.Action != server.Asked {
		select {
		case a.queue <- l:
		default:
			err := fmt.Errorf("%s takes no lines, and %d wait; until it does, lines are lost, and breaks wait", a.path, mostBehind)
			if a.lost.Add(1) == 1 {
				a.warn(err)
			}
			return err
		}
		if err := a.fault.Load(); err != nil {
			return *err
		}
		return nil
	}
	l.written = make(chan error, 1)
	select {
	case a.queue <- l:
	case <-a.ends:
		return errAuditEnded
	}
	select {
	case err := <-l.written:
		return err
	case <-a.over:
		return errAuditEnded
	}
}

// write writes the lines until the audit ends, then those that are there, and closes the file.
func (a *auditFile) write() {
	defer close(a.over)
	for {
		select {
		case l := <-a.queue:
			a.put(l)
			continue
		case <-a.ends:
		}
		for len(a.queue) > 0 {
			a.put(<-a.queue)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.f != nil {
			a.closeLocked()
		}
		return
	}
}

// put writes a line.
func (a *auditFile) put(l *auditLine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.writeLocked(l.text, l.written != nil)
	if a.fault.Store(nil); err == nil {
		a.said = ""
		if n := a.lost.Swap(0); n > 0 {
			a.warn(fmt.Errorf("%s takes lines again; %d are lost", a.path, n))
		}
	} else {
		a.fault.Store(&err)
		a.faultLocked(err)
	}
	if l.written != nil {
		l.written <- err
	}
}

// faultLocked warns of a fault.
func (a *auditFile) faultLocked(err error) {
	if a.said != err.Error() {
		a.said = err.Error()
		a.warn(err)
	}
}

// openLocked opens the file. Others than its owner may not use it, since it says who works on what. Nor may it be a pipe or a
// device: the service would stand still while nobody reads it.
func (a *auditFile) openLocked() error {
	switch is, err := os.Stat(a.path); {
	case err == nil && !is.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file; a pipe or a device could hold up each request", a.path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if a.torn, err = claim(f); err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	a.f = f
	return nil
}

// claim makes an open file one service's own, and reports whether it ends within a line.
func claim(f *os.File) (torn bool, err error) {
	is, err := f.Stat()
	if err != nil {
		return false, err
	}
	if mode := is.Mode().Perm(); mode&0o077 != 0 {
		return false, fmt.Errorf("%s has mode %04o, so others can use it; make it chmod 600", f.Name(), mode)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%s is in use by another service; each needs a file of its own", f.Name())
	}
	if err != nil {
		return false, err
	}
	return endsWithin(f.Name(), is.Size())
}

// endsWithin reports whether a file of some size ends within a line, as after a crash.
func endsWithin(path string, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	last := []byte{0}
	if _, err := f.ReadAt(last, size-1); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return last[0] != '\n', nil
}

// writeLocked writes a line, and with sync also brings it to the disk.
func (a *auditFile) writeLocked(line []byte, sync bool) error {
	if err := a.readyLocked(int64(len(line))); err != nil {
		return err
	}
	if a.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := a.f.Write(line)
	if n > 0 {
		a.torn = n < len(line)
	}
	if err == nil && sync {
		err = a.f.Sync()
	}
	return err
}

// readyLocked makes the open file the one that the path names, with room for some bytes.
func (a *auditFile) readyLocked(room int64) error {
	is, err := os.Stat(a.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if a.f != nil && !a.isLocked(is) {
		a.closeLocked()
	}
	if a.f != nil && is.Size() > 0 && is.Size()+room > a.most {
		if err := os.Rename(a.path, a.path+".1"); err != nil {
			a.faultLocked(err) // the file outgrows its bound, so that breaks go on
		} else {
			a.closeLocked()
		}
	}
	if a.f == nil {
		return a.openLocked()
	}
	return nil
}

// isLocked reports whether the file that is open is the one that its path names.
func (a *auditFile) isLocked(is fs.FileInfo) bool {
	open, err := a.f.Stat()
	return err == nil && is != nil && os.SameFile(is, open)
}

func (a *auditFile) closeLocked() {
	_ = a.f.Close() // each line has been written
	a.f = nil
}

// closeWithin is how long the end of the service waits for a line that is being written, as to a disk behind a dead network.
const closeWithin = 2 * time.Second

// close closes the file, at the end of the service.
func (a *auditFile) close() {
	a.end()
	select {
	case <-a.over:
	case <-time.After(closeWithin):
		a.warn(fmt.Errorf("%s does not take a line; the service ends without it", a.path))
	}
}
