package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

func TestFileGone(t *testing.T) {
	tests := []struct {
		name string
		do   func(t *testing.T, path string)
		says string
	}{
		{"removed", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "was removed"},
		{"replaced", func(t *testing.T, path string) {
			other := lockFile(t)
			enter(t, open(t, other), claim("y", time.Minute), true)
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		}, "was replaced"},
		{"made anew", func(t *testing.T, path string) {
			db := raw(t, path)
			mustExec(t, db, "DELETE FROM stile_claim")
			mustExec(t, db, "UPDATE stile_meta SET incarnation = 'another'")
		}, "made anew"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockFile(t)
			d := open(t, path)
			held, waits := claim("x", time.Minute), claim("x", time.Minute)
			enter(t, d, held, true)
			enter(t, d, waits, false)
			awaited := make(chan error, 1)
			go func() {
				_, err := d.Await(t.Context(), waits)
				awaited <- err
			}()
			tt.do(t, path)
			got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err
			says(t, "renewal", got, tt.says, path)
			if !errors.Is(got, driver.ErrGone) {
				t.Errorf("renewal = %v; want %v", got, driver.ErrGone)
			}
			if err := d.Leave(t.Context(), &driver.Release{Claim: held}); !errors.Is(err, driver.ErrGone) {
				t.Errorf("leave = %v; want %v", err, driver.ErrGone)
			}
			_, err := d.Enter(t.Context(), claim("x", time.Minute))
			says(t, "enter", err, tt.says, path, "open it again")
			if !driver.NotApplied(err) {
				t.Errorf("enter = %v; want a definite error", err)
			}
			_, err = d.(driver.Lister).List(t.Context(), &driver.Query{})
			says(t, "list", err, tt.says)
			if err := <-awaited; err != nil {
				says(t, "await", err, tt.says)
			}
		})
	}
}

// Another process that holds the write lock makes a call wait, but not for ever, and not past its context.
func TestBusy(t *testing.T) {
	path := lockFile(t)
	const bound = 300 * time.Millisecond
	d, err := Open(t.Context(), path, &Options{Busy: bound})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	patient, held := open(t, path), claim("held", time.Minute)
	enter(t, d, held, true)
	other, err := raw(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}

	start := time.Now()
	_, err = d.Enter(t.Context(), claim("x", time.Minute))
	says(t, "enter", err, "another process", path, bound.String())
	if !driver.IsUnreachable(err) || !driver.NotApplied(err) {
		t.Errorf("enter = %v; want unreachable, and certainly not applied", err)
	}
	if took := time.Since(start); took < bound {
		t.Errorf("enter took %v; want at least %v", took, bound)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err = d.Enter(ctx, claim("x", time.Minute)); !errors.Is(err, context.DeadlineExceeded) || !driver.NotApplied(err) {
		t.Errorf("enter = %v; want the context's error, and certainly not applied", err)
	}
	if list, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list = %+v, %v; want what was committed", list, err)
	}

	entered := make(chan error, 1)
	go func() {
		_, err := patient.Enter(t.Context(), claim("x", time.Minute))
		entered <- err
	}()
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-entered; err != nil {
		t.Errorf("enter once the other process is done = %v; want nil", err)
	}
}

func TestCloseEndsABusyCall(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	other, err := raw(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	entered := make(chan error, 1)
	go func() {
		_, err := d.Enter(t.Context(), claim("x", time.Minute))
		entered <- err
	}()
	if err := d.Close(); err != nil {
		t.Errorf("close = %v; want nil", err)
	}
	if err := <-entered; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("enter = %v; want %v", err, driver.ErrClosed)
	}
}

// A limit on the size of the database stands for a full disk: SQLite has the same error for both.
func TestFull(t *testing.T) {
	path := lockFile(t)
	db := raw(t, path+"?_pragma=max_page_count(16)")
	d, err := sqldb.New(t.Context(), db, &sqldb.Options{Label: "lock file " + path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first := claim("first", time.Minute)
	enter(t, d, first, true)
	var full error
	for i := 0; i < 1000 && full == nil; i++ {
		c := claim(fmt.Sprint("x", i), time.Minute)
		c.Record = strings.Repeat("r", driver.MaxRecord)
		_, full = d.Enter(t.Context(), c)
	}
	says(t, "enter", full, path, "no room")
	if !driver.NotApplied(full) {
		t.Errorf("enter = %v; want a definite error", full)
	}
	if a := d.Renew(t.Context(), []*driver.Claim{first}); a[0].Err != nil {
		t.Errorf("renewal on a full disk = %v; want nil, as it takes no room", a[0].Err)
	}
	leave(t, d, first)
}

func TestOwnDatabase(t *testing.T) {
	db := raw(t, lockFile(t))
	d, err := sqldb.New(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	enter(t, d, claim("x", time.Minute), true)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var wait int
	if err := db.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&wait); err != nil {
		t.Errorf("the database after the driver was closed: %v; want it open", err)
	}
	if n := db.Stats().OpenConnections; n != 1 {
		t.Errorf("%d connections are open; want one, that of this test", n)
	}

	tests := []struct {
		name  string
		db    func() *sql.DB
		o     *sqldb.Options
		parts []string
	}{
		{"memory", func() *sql.DB { return raw(t, ":memory:") }, nil, []string{"the database", "file"}},
		{"one connection", func() *sql.DB { db := raw(t, lockFile(t)); db.SetMaxOpenConns(1); return db }, nil, []string{"two"}},
		{"prefix", func() *sql.DB { return raw(t, lockFile(t)) }, &sqldb.Options{Prefix: "a-b"}, []string{"prefix"}},
	}
	for _, tt := range tests {
		_, err := sqldb.New(t.Context(), tt.db(), tt.o)
		says(t, tt.name, err, tt.parts...)
	}
}
