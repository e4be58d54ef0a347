package sqldb

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Package sqlite tests the behaviour with a real database: this package has no SQL driver.

var bare = regexp.MustCompile(`\b(FROM|INTO|UPDATE|JOIN|ON|EXISTS) +(claim|meta)\b`)

func TestStatements(t *testing.T) {
	all := statements(sqliteText, "my_")
	for _, name := range []string{
		"create meta", "create claim", "create index", "create row", "known", "begin", "commit", "rollback", "write back", "write back the rest", "meta", "mark",
		"schema", "from 1: state", "from 1: add", "from 1: fill", "check meta", "check claim", "void", "queue", "state", "queues", "insert", "update", "amend", "delete", "one waits", "some wait", "kept", "version",
	} {
		if all[name] == "" {
			t.Errorf("statement %q is missing", name)
		}
		delete(all, name)
	}
	for name := range all {
		t.Errorf("statement %q is not in the list of this test", name)
	}
	for name, text := range statements(sqliteText, "my_") {
		if strings.ContainsAny(text, "{}'\"`") {
			t.Errorf("statement %q has a name that was not filled in, or a literal: %s", name, text)
		}
		if bare.MatchString(text) {
			t.Errorf("statement %q names a table without the prefix: %s", name, text)
		}
	}
}

type coded int

func (c coded) Error() string { return "coded" }
func (c coded) Code() int     { return int(c) }

func TestCode(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("something else"), 0},
		{coded(5), codeBusy},
		{coded(5 | 2<<8), codeBusy}, // SQLITE_BUSY_SNAPSHOT
		{errors.New("sqlite3: locking protocol"), codeProtocol},
		{fmt.Errorf("wrapped: %w", coded(13)), codeFull},
		{errors.New("database is locked"), codeBusy},
		{errors.New("sqlite3: database table is locked"), codeBusy},
		{errors.New("attempt to write a readonly database"), codeReadOnly},
		{errors.New("database or disk is full"), codeFull},
		{errors.New("database disk image is malformed"), codeCorrupt},
		{errors.New("file is not a database"), codeNotADB},
		{errors.New("unable to open database file: no such file"), codeCantOpen},
	}
	for _, tt := range tests {
		if got := code(tt.err); got != tt.want {
			t.Errorf("code(%v) = %d; want %d", tt.err, got, tt.want)
		}
	}
}

// A passing condition is waited for, and is no refusal. SQLite may only say that the file beside the database could
// not grow; the error says that the disk is full then too. Whether the commit was done is not known, so the code is
// not the one for a full disk.
func TestExplainShmSize(t *testing.T) {
	err := explain("lock file x", coded(codeShmSize))
	if got, want := err.Error(), "lock file x has no room: the disk is full: coded"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if code(err) == codeFull || busy(err) {
		t.Errorf("code %d; want one that promises nothing", code(err))
	}
}

func TestBusy(t *testing.T) {
	for code, want := range map[int]bool{codeError: false, codeBusy: true, 6: true, codeFull: false, codeProtocol: true} {
		if got := busy(coded(code)); got != want {
			t.Errorf("busy(%d) = %v; want %v", code, got, want)
		}
	}
}
