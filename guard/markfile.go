package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A markFile keeps one mark. It has two records, written in turn, so that a write which a crash cuts short leaves the older
// one. A record is a line of 512 bytes, which a disk writes in one piece if it can.
type markFile struct {
	path string
	mode fs.FileMode // if it is made
}

const (
	recordSize = 512
	recordText = "stile guard 1 token %019d"
	sumText    = " crc %08x"
)

// errDamaged says that a mark exists but cannot be read. Treating it as missing would let late holders in.
var errDamaged = errors.New("the file of the mark is damaged")

// An openMark is a mark file that this process has locked.
type openMark struct {
	f     *os.File
	token int64 // 0 if there is none
	next  int64 // the offset of the next record
}

// open waits for the lock on the file and reads the mark. If the file is missing, open makes it if the caller wants that;
// otherwise the mark is 0, and there is no file to close.
func (m *markFile) open(ctx context.Context, create bool) (*openMark, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	for {
		f, err := os.OpenFile(m.path, flags, m.mode)
		if errors.Is(err, fs.ErrNotExist) && !create {
			return &openMark{}, nil
		}
		if err != nil {
			return nil, err
		}
		if err := lock(ctx, f); err != nil {
			f.Close()
			return nil, err
		}
		if !stands(f, m.path) {
			f.Close()
			continue // it was removed or replaced while we waited
		}
		o := &openMark{f: f}
		if err := o.read(); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		return o, nil
	}
}

// raise makes a token the mark, unless the mark is higher. When it returns nil, the mark is durable.
func (m *markFile) raise(ctx context.Context, resource string, token int64) error {
	o, err := m.open(ctx, true)
	if err != nil {
		return err
	}
	defer o.close()
	if token < o.token {
		return &StaleError{resource, token, o.token}
	}
	if token > o.token {
		if _, err := o.f.WriteAt(record(token), o.next); err != nil {
			return err
		}
	}
	// This also runs if the token was already the mark: its writer may have ended before the mark was on disk.
	if err := o.f.Sync(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(m.path))
}

func (o *openMark) close() {
	if o.f != nil {
		o.f.Close()
	}
}

func (o *openMark) read() error {
	// One byte more than a mark can have shows that the file is something else.
	text, err := io.ReadAll(io.LimitReader(o.f, 2*recordSize+1))
	if err != nil {
		return err
	}
	var tokens [2]int64
	for i := range tokens {
		if from := i * recordSize; len(text) >= from+recordSize {
			tokens[i] = parseRecord(text[from : from+recordSize])
		}
	}
	o.token = max(tokens[0], tokens[1])
	if tokens[0] > tokens[1] {
		o.next = recordSize
	}
	if len(text) > 2*recordSize || o.token == 0 && (len(text) > recordSize || !begun(text)) {
		return errDamaged
	}
	return nil
}

// begun reports whether a text may be a first record that was cut short. It is not a mark: its raise never returned nil.
func begun(text []byte) bool {
	const start = len("stile guard")
	return bytes.HasPrefix([]byte(recordText), bytes.TrimRight(text[:min(len(text), start)], "\x00"))
}

func record(token int64) []byte {
	text := fmt.Appendf(nil, recordText, token)
	text = fmt.Appendf(text, sumText, crc32.ChecksumIEEE(text))
	line := bytes.Repeat([]byte{' '}, recordSize)
	copy(line, text)
	line[recordSize-1] = '\n'
	return line
}

// parseRecord returns a record's token, or 0 if it is not whole.
func parseRecord(line []byte) (token int64) {
	if _, err := fmt.Sscanf(string(line), recordText, &token); err != nil || token <= 0 || !bytes.Equal(record(token), line) {
		return 0
	}
	return token
}

const maxLockWait = 20 * time.Millisecond

// lock waits for the system's lock on a file until the context ends. Processes hold it only for a few writes.
func lock(ctx context.Context, f *os.File) error {
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, maxLockWait) {
		if ok, err := tryLock(f); ok || err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// stands reports whether an open file is still the file at the path.
func stands(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}
