package sqlite

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	_ "modernc.org/sqlite" // prepares the library for use
	lib "modernc.org/sqlite/lib"

	"github.com/stilelock/stile/store/sqldb"
)

// A conn is a connection over the library's own functions. It is a [sqldb.Conn].
//
// A lock and unlock takes 9 statements. For each call, package database/sql and its driver make a name and a type of each
// column, and copy each text several times. Without them, a lock and unlock takes 61 µs in place of 75, beside 34 for a bare
// INSERT and DELETE through them (medians of three interleaved rounds of: scenario alone of the bench on SQLite).
type conn struct {
	tls   *libc.TLS
	db    uintptr
	stmts map[string]uintptr
	texts room    // for the arguments of the present statement
	out   uintptr // where the library puts a pointer
	pages uintptr // where [logged] puts a number
}

var _ sqldb.Logged = (*conn)(nil)

// A room is memory of the library, not of Go: the library reads it in words, past its end too.
type room struct {
	at   uintptr
	size int
}

// grow makes the room large enough, and drops its content.
func (r *room) grow(tls *libc.TLS, size int) {
	if size > r.size {
		libc.Xfree(tls, r.at)
		r.at, r.size = libc.Xmalloc(tls, types.Size_t(2*size)), 2*size
	}
}

// octets returns n bytes of the library's memory.
func octets(at uintptr, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n) }

func connect(path string) (*conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: map[string]uintptr{}}
	c.out = libc.Xmalloc(c.tls, types.Size_t(unsafe.Sizeof(c.out)))
	const flags = lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_NOMUTEX
	rc := lib.Xsqlite3_open_v2(c.tls, c.ended(path), c.out, flags, 0)
	if c.db = c.given(); rc != lib.SQLITE_OK {
		err := c.failed(rc)
		c.Close()
		return nil, err
	}
	lib.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	c.pages = libc.Xcalloc(c.tls, 1, types.Size_t(unsafe.Sizeof(int32(0))))
	lib.Xsqlite3_wal_hook(c.tls, c.db, callable(logged), c.pages) // in place of the hook that writes back the log
	return c, nil
}

// connect connects to the file, and reads there. A log that does not fit the index of others cannot be read. Until it is
// certain that all use the same log, the error says so.
func (f *files) connect(ctx context.Context) (sqldb.Conn, error) {
	c, err := connect(f.paths[theFile])
	if err != nil {
		return nil, err
	}
	if err = c.Exec(pageSize); err == nil {
		err = c.Exec("PRAGMA schema_version")
	}
	if err == nil {
		return c, nil
	}
	defer c.Close()
	if e, ok := errors.AsType[*resultError](err); ok && e.code&0xff == lib.SQLITE_IOERR && f.identities[theLog] == nil {
		if wrong := f.opened(ctx); wrong != nil {
			return nil, wrong
		}
	}
	return nil, err
}

// pageSize applies to a new file; others keep theirs. A lock and unlock writes 5 pages to the log, whatever their size is:
// each is copied, summed, and written to the disk before the log is written back. With 1 KiB, 27,400 locks and unlocks are
// made in a second, with SQLite's 4 KiB 19,200, beside 29,000 to 33,000 of bare rows; by eight processes 19,900 and 13,700
// (bench -store=sqlite -only='^(alone|own)$').
const pageSize = "PRAGMA page_size = 1024"

// logged is the library's hook after a commit, which gets the number of pages in the log.
func logged(_ *libc.TLS, pages, _, _ uintptr, n int32) int32 {
	**(**int32)(unsafe.Pointer(&pages)) = n
	return lib.SQLITE_OK
}

// callable returns a pointer by which the library calls a function. It must be no closure, which nothing would keep alive.
func callable(f func(_ *libc.TLS, arg, db, name uintptr, n int32) int32) uintptr {
	return *(*uintptr)(unsafe.Pointer(&f))
}

// Pages implements [sqldb.Logged].
func (c *conn) Pages() int { return int(**(**int32)(unsafe.Pointer(&c.pages))) }

// ended puts a text with a final zero byte into the library's memory. It stays there until the next text.
func (c *conn) ended(text string) uintptr {
	c.texts.grow(c.tls, len(text)+1)
	clear(octets(c.texts.at, len(text)+1))
	copy(octets(c.texts.at, len(text)), text)
	return c.texts.at
}

// given returns the pointer that the library returned last.
func (c *conn) given() uintptr { return **(**uintptr)(unsafe.Pointer(&c.out)) }

// stmt returns the prepared statement of a text.
func (c *conn) stmt(text string) (uintptr, error) {
	if stmt := c.stmts[text]; stmt != 0 {
		return stmt, nil
	}
	if rc := lib.Xsqlite3_prepare_v2(c.tls, c.db, c.ended(text), int32(len(text)+1), c.out, 0); rc != lib.SQLITE_OK {
		return 0, c.failed(rc)
	}
	stmt := c.given()
	c.stmts[text] = stmt
	return stmt, nil
}

// Prepare implements [sqldb.Conn].
func (c *conn) Prepare(text string) error {
	_, err := c.stmt(text)
	return err
}

// Exec implements [sqldb.Conn].
func (c *conn) Exec(text string, args ...any) error {
	return c.Query(text, args, func(func(...any) error) (bool, error) { return true, nil })
}

// Query implements [sqldb.Conn].
func (c *conn) Query(text string, args []any, each func(scan func(...any) error) (bool, error)) error {
	stmt, err := c.stmt(text)
	if err != nil {
		return err
	}
	if err := c.bind(stmt, args); err != nil {
		return err
	}
	defer lib.Xsqlite3_reset(c.tls, stmt)
	scan := func(into ...any) error { return c.scan(stmt, into) }
	for {
		switch rc := lib.Xsqlite3_step(c.tls, stmt); rc {
		case lib.SQLITE_DONE:
			return nil
		case lib.SQLITE_ROW:
			if more, err := each(scan); err != nil || !more {
				return err
			}
		default:
			return c.failed(rc)
		}
	}
}

// bind gives a statement its arguments. The texts stay in place until the next statement.
func (c *conn) bind(stmt uintptr, args []any) error {
	size := 1
	for _, arg := range args {
		if text, ok := arg.(string); ok {
			size += len(text)
		}
	}
	c.texts.grow(c.tls, size)
	free := c.texts.at
	for i, arg := range args {
		rc, at := int32(lib.SQLITE_MISUSE), int32(i+1)
		switch v := arg.(type) {
		case string:
			copy(octets(free, len(v)), v)
			rc = lib.Xsqlite3_bind_text(c.tls, stmt, at, free, int32(len(v)), lib.SQLITE_STATIC)
			free += uintptr(len(v))
		case int:
			rc = lib.Xsqlite3_bind_int64(c.tls, stmt, at, int64(v))
		case int64:
			rc = lib.Xsqlite3_bind_int64(c.tls, stmt, at, v)
		case bool:
			if v {
				rc = lib.Xsqlite3_bind_int64(c.tls, stmt, at, 1)
			} else {
				rc = lib.Xsqlite3_bind_int64(c.tls, stmt, at, 0)
			}
		}
		if rc != lib.SQLITE_OK {
			return c.failed(rc)
		}
	}
	return nil
}

// scan reads the columns of the row that a statement is at.
func (c *conn) scan(stmt uintptr, into []any) error {
	for i := range into {
		at, want := int32(i), int32(lib.SQLITE_INTEGER)
		if _, ok := into[i].(*string); ok {
			want = lib.SQLITE_TEXT
		}
		if got := lib.Xsqlite3_column_type(c.tls, stmt, at); got != want {
			return fmt.Errorf("column %d has a value of type %d; want %d", i, got, want)
		}
		switch p := into[i].(type) {
		case *string:
			text := lib.Xsqlite3_column_text(c.tls, stmt, at)
			*p = string(octets(text, int(lib.Xsqlite3_column_bytes(c.tls, stmt, at))))
		case *int:
			*p = int(lib.Xsqlite3_column_int64(c.tls, stmt, at))
		case *int64:
			*p = lib.Xsqlite3_column_int64(c.tls, stmt, at)
		case *bool:
			*p = lib.Xsqlite3_column_int64(c.tls, stmt, at) != 0
		default:
			return fmt.Errorf("column %d cannot be read into %T", i, p)
		}
	}
	return nil
}

// Close implements [sqldb.Conn].
func (c *conn) Close() error {
	for _, stmt := range c.stmts {
		lib.Xsqlite3_finalize(c.tls, stmt)
	}
	c.stmts = nil
	rc := lib.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.texts.at)
	libc.Xfree(c.tls, c.out)
	libc.Xfree(c.tls, c.pages)
	c.tls.Close()
	if rc != lib.SQLITE_OK {
		return &resultError{code: int(rc), text: "the connection cannot be closed"}
	}
	return nil
}

// A resultError is a result code of SQLite.
type resultError struct {
	code int
	text string
}

func (e *resultError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// Code is for package sqldb.
func (e *resultError) Code() int { return e.code }

// failed returns the error of the last call of the library.
func (c *conn) failed(rc int32) error {
	text := libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if more := libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db)); more != text {
			text += ": " + more
		}
	}
	return &resultError{code: int(rc), text: text}
}
