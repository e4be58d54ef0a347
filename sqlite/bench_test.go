package sqlite

import (
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

// A lock goes back and forth between two drivers, which know of each other through the file alone.
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

// What each use of a lock file pays for the certainty that the file and its log are still there.
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

// A file that others have open is the dearest to open: who has it open, with which log, has to be found out.
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
