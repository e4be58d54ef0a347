package sqldb

import (
	"errors"
	"fmt"
	"strings"
)

// Result codes of SQLite, and their meaning for the database.
const (
	codeError    = 1
	codeBusy     = 5
	codeReadOnly = 8
	codeIO       = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeProtocol = 15 // too many connections began to read the log at once
	codeNotADB   = 26

	// codeShmSize is the extended code if the file -shm beside the database could not grow. A commit may end with it when
	// its frames are already in the log, so unlike codeFull it does not say that nothing was written.
	codeShmSize = 10 | 19<<8
)

var meaning = map[int]string{
	codeReadOnly: "cannot be written",
	codeIO:       "cannot be used",
	codeCorrupt:  "is damaged",
	codeFull:     "has no room: the disk is full",
	codeCantOpen: "cannot be opened",
	codeNotADB:   "is not an SQLite database",
}

// A coder is an error of a SQLite driver with SQLite's result code.
type coder interface {
	error
	Code() int
}

// code returns the primary result code in an error of a driver of SQLite. Errors without a method for it are recognized by
// SQLite's own messages.
func code(err error) int {
	if e, ok := errors.AsType[coder](err); ok {
		return e.Code() & 0xff
	}
	if err == nil {
		return 0
	}
	for text, code := range map[string]int{
		"database is locked":          codeBusy,
		"database table is locked":    codeBusy,
		"attempt to write a readonly": codeReadOnly,
		"disk I/O error":              codeIO,
		"image is malformed":          codeCorrupt,
		"database or disk is full":    codeFull,
		"unable to open database":     codeCantOpen,
		"locking protocol":            codeProtocol,
		"file is not a database":      codeNotADB,
	} {
		if strings.Contains(err.Error(), text) {
			return code
		}
	}
	return 0
}

// busy reports that other connections blocked the call, so that nothing was done and the same call may succeed soon.
func busy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeBusy+1 || c == codeProtocol
}

// explain explains an error of SQLite, for the database with this label.
func explain(label string, err error) error {
	if e, ok := errors.AsType[coder](err); ok && e.Code() == codeShmSize {
		return fmt.Errorf("%s %s: %w", label, meaning[codeFull], err)
	}
	if text, known := meaning[code(err)]; known {
		return fmt.Errorf("%s %s: %w", label, text, err)
	}
	return err
}
