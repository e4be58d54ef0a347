package sqldb

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

//go:embed sqlite.sql
var sqliteText string

// schemaVersion is that of the tables in sqlite.sql.
const schemaVersion = 1

// statements returns the statements of a text by name, for tables with this prefix.
func statements(text, prefix string) map[string]string {
	_, text, _ = strings.Cut(text, "-- name: ")
	all := map[string]string{}
	for part := range strings.SplitSeq(text, "-- name: ") {
		name, statement, _ := strings.Cut(part, "\n")
		all[name] = strings.TrimSpace(strings.ReplaceAll(statement, "{prefix}", prefix))
	}
	return all
}

// pragmas are set on each connection. They are gone with it, since a connection never goes back to the pool.
//
// synchronous=NORMAL does not sync a commit to the disk. A power loss may undo the last ones, but it also ends every
// process that held a lock here, their claims are void after the boot, and tickets go on from the wall clock, so above
// those that were undone. A crash of the process alone undoes nothing.
//
// busy_timeout is 0 since SQLite's own wait heeds no context.
var pragmas = []string{"PRAGMA busy_timeout = 0", "PRAGMA synchronous = NORMAL"}

// Result codes of SQLite, and what they say about the database.
const (
	codeError    = 1
	codeBusy     = 5
	codeReadOnly = 8
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

var meaning = map[int]string{
	codeReadOnly: "cannot be written",
	codeCorrupt:  "is damaged",
	codeFull:     "has no room: the disk is full",
	codeCantOpen: "cannot be opened",
	codeNotADB:   "is not an SQLite database",
}

// code returns the primary result code in an error of a driver of SQLite. Those that have no method for it are told by
// SQLite's own messages.
func code(err error) int {
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		return e.Code() & 0xff
	}
	if err == nil {
		return 0
	}
	for text, code := range map[string]int{
		"database is locked":          codeBusy,
		"database table is locked":    codeBusy,
		"attempt to write a readonly": codeReadOnly,
		"image is malformed":          codeCorrupt,
		"database or disk is full":    codeFull,
		"unable to open database":     codeCantOpen,
		"file is not a database":      codeNotADB,
	} {
		if strings.Contains(err.Error(), text) {
			return code
		}
	}
	return 0
}

func busy(err error) bool { return code(err) == codeBusy || code(err) == codeBusy+1 }

// explain says what an error of SQLite means for the database that is called label.
func explain(label string, err error) error {
	if text, known := meaning[code(err)]; known {
		return fmt.Errorf("%s %s: %w", label, text, err)
	}
	return err
}
