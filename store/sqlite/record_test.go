package sqlite

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A record is the list of SQLite's calls on the files of one database, in order. It is taken where SQLite passes a write to
// the system: each method of a file that changes or syncs it is replaced by one that notes the call and then makes it.
type record struct {
	mu    sync.Mutex // guards the fields below
	path  string     // of the database
	steps []step
	files map[uintptr]*file // open files, by their address

	methods map[uintptr]uintptr // the replacement of each set of real methods: SQLite has several
}

// A file is one that SQLite has open.
type file struct {
	name   string // its suffix after the database's name
	real   uintptr
	synced bool // since it was opened
}

// A step is one call of the system. It is a write, or one of the last three fields is set.
type step struct {
	file string // the file's suffix after the database's name: "", "-wal" or "-journal"
	at   int64  // the offset of the write, or the length after the cut
	data []byte

	truncates, syncs, deletes bool
	folder                    bool // the folder, and so the names in it, was synced too
}

// recording is the record that is being taken: SQLite's functions cannot carry it.
var recording *record

var realVFS uintptr

// at returns the value at an address of SQLite's own memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// function returns SQLite's form of a function, and called is the reverse.
func function(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }

func called[T any](f uintptr) T { return *(*T)(unsafe.Pointer(&struct{ f uintptr }{f})) }

type (
	openMethod     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteMethod   = func(tls *libc.TLS, vfs, name uintptr, sync int32) int32
	writeMethod    = func(tls *libc.TLS, file, data uintptr, n int32, at int64) int32
	truncateMethod = func(tls *libc.TLS, file uintptr, size int64) int32
	syncMethod     = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// take records the writes to the database at a path, over connections that are opened from now on until stop.
func take(t *testing.T, path string) *record {
	t.Helper()
	tls := libc.NewTLS()
	t.Cleanup(tls.Close)
	recording = &record{path: path, files: map[uintptr]*file{}, methods: map[uintptr]uintptr{}}
	realVFS = sqlite3.Xsqlite3_vfs_find(tls, 0)
	var vfs sqlite3.Tsqlite3_vfs
	copied := sqlite3.Xsqlite3_malloc64(tls, uint64(unsafe.Sizeof(vfs)))
	name, err := libc.CString("recorded")
	if copied == 0 || err != nil {
		t.Fatalf("no memory for SQLite: %v", err)
	}
	*at[sqlite3.Tsqlite3_vfs](copied) = *at[sqlite3.Tsqlite3_vfs](realVFS)
	v := at[sqlite3.Tsqlite3_vfs](copied)
	v.FzName, v.FpNext = name, 0
	v.FxOpen, v.FxDelete = function(recordedOpen), function(recordedDelete)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, copied, 1); rc != 0 {
		t.Fatalf("SQLite does not take the recorder: %d", rc)
	}
	r := recording
	t.Cleanup(r.stop)
	return r
}

// stop lets SQLite open files as before. Open ones are still recorded.
func (r *record) stop() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_vfs_register(tls, realVFS, 1)
}

// length returns the number of steps.
func (r *record) length() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

func (r *record) add(s step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s)
}

// file returns the name of an open file, and SQLite's own methods for it.
func (r *record) file(address uintptr) (name string, real *sqlite3.Tsqlite3_io_methods) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[address]
	return f.name, at[sqlite3.Tsqlite3_io_methods](f.real)
}

// synced records that a file was synced. With the first sync of a log or a journal, SQLite syncs the folder.
func (r *record) synced(address uintptr, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[address]
	r.steps = append(r.steps, step{file: name, syncs: true, folder: name != "" && !f.synced})
	f.synced = true
}

// replace gives an open file the recording methods.
func (r *record) replace(tls *libc.TLS, address uintptr, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := at[sqlite3.Tsqlite3_file](address)
	r.files[address] = &file{name: name, real: f.FpMethods}
	if r.methods[f.FpMethods] == 0 {
		m := *at[sqlite3.Tsqlite3_io_methods](f.FpMethods)
		copied := sqlite3.Xsqlite3_malloc64(tls, uint64(unsafe.Sizeof(m)))
		m.FxWrite, m.FxTruncate, m.FxSync = function(recordedWrite), function(recordedTruncate), function(recordedSync)
		*at[sqlite3.Tsqlite3_io_methods](copied) = m
		r.methods[f.FpMethods] = copied
	}
	f.FpMethods = r.methods[f.FpMethods]
}

func recordedOpen(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	rc := called[openMethod](at[sqlite3.Tsqlite3_vfs](realVFS).FxOpen)(tls, realVFS, name, file, flags, out)
	if rc == 0 && name != 0 {
		if suffix, ours := strings.CutPrefix(libc.GoString(name), recording.path); ours {
			recording.replace(tls, file, suffix)
		}
	}
	return rc
}

func recordedDelete(tls *libc.TLS, _, name uintptr, syncs int32) int32 {
	rc := called[deleteMethod](at[sqlite3.Tsqlite3_vfs](realVFS).FxDelete)(tls, realVFS, name, syncs)
	if suffix, ours := strings.CutPrefix(libc.GoString(name), recording.path); ours && rc == 0 {
		recording.add(step{file: suffix, deletes: true})
		if syncs != 0 {
			recording.add(step{file: suffix, syncs: true, folder: true})
		}
	}
	return rc
}

func recordedWrite(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	name, real := recording.file(file)
	recording.add(step{file: name, at: offset, data: slices.Clone(unsafe.Slice(at[byte](data), n))})
	return called[writeMethod](real.FxWrite)(tls, file, data, n, offset)
}

func recordedTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	name, real := recording.file(file)
	recording.add(step{file: name, at: size, truncates: true})
	return called[truncateMethod](real.FxTruncate)(tls, file, size)
}

func recordedSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	name, real := recording.file(file)
	rc := called[syncMethod](real.FxSync)(tls, file, flags)
	if rc == 0 {
		recording.synced(file, name)
	}
	return rc
}
