package sqlite

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func BenchmarkEnterLeave(b *testing.B) {
	d := open(b, lockFile(b))
	for b.Loop() {
		c := claim("x", time.Minute)
		enter(b, d, c, true)
		leave(b, d, c)
	}
}

// BenchmarkBare is the baseline of EnterLeave: the least work of a program that locks by a row in a file, with the same
// library and pragmas.
func BenchmarkBare(b *testing.B) {
	db, err := sql.Open("sqlite", lockFile(b))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(f func(context.Context, ...any) (sql.Result, error), args ...any) {
		if _, err := f(context.Background(), args...); err != nil {
			b.Fatal(err)
		}
	}
	prepare := func(text string) func(context.Context, ...any) (sql.Result, error) {
		stmt, err := db.Prepare(text)
		if err != nil {
			b.Fatal(err)
		}
		return stmt.ExecContext
	}
	exec(prepare("PRAGMA journal_mode = WAL"))
	exec(prepare("PRAGMA synchronous = NORMAL"))
	exec(prepare("CREATE TABLE lock (name TEXT PRIMARY KEY, owner TEXT NOT NULL) STRICT"))
	lock, unlock := prepare("INSERT INTO lock (name, owner) VALUES (?, ?)"), prepare("DELETE FROM lock WHERE name = ? AND owner = ?")
	for b.Loop() {
		exec(lock, "x", "owner")
		exec(unlock, "x", "owner")
	}
}

// BenchmarkHandOver measures a lock that goes back and forth between two drivers, which know of each other only through the
// file.
func BenchmarkHandOver(b *testing.B) {
	path := lockFile(b)
	a, z := open(b, path), open(b, path)
	held := claim("x", time.Minute)
	enter(b, a, held, true)
	for b.Loop() {
		next := claim("x", time.Minute)
		enter(b, z, next, false)
		told := make(chan error, 1)
		go func() {
			p, err := z.Await(b.Context(), next)
			if err == nil && !p.Holds {
				err = driver.ErrGone
			}
			told <- err
		}()
		leave(b, a, held)
		if err := <-told; err != nil {
			b.Fatal(err)
		}
		held, a, z = next, z, a
	}
}

func BenchmarkRenew64(b *testing.B) {
	d := open(b, lockFile(b))
	var all []*driver.Claim
	for range 64 {
		c := claim("x", time.Minute)
		c.Name += c.ID
		enter(b, d, c, true)
		all = append(all, c)
	}
	for b.Loop() {
		for _, r := range d.Renew(b.Context(), all) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

// BenchmarkMoved measures the check at each use that the file and its log are still in place.
func BenchmarkMoved(b *testing.B) {
	path := lockFile(b)
	open(b, path)
	f, err := openFiles(path, false)
	if err == nil {
		err = f.note()
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := f.moved(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen measures opening a file that others have open, the most expensive case: who has it open, with which log, has
// to be found out.
func BenchmarkOpen(b *testing.B) {
	path := lockFile(b)
	enter(b, open(b, path), claim("x", time.Hour), true)
	for b.Loop() {
		d, err := Open(b.Context(), path, nil)
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
