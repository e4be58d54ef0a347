package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/sqldb"
)

// bellOf hangs one more bell of a file that is open.
func bellOf(t *testing.T, path string) *bell {
	t.Helper()
	f, err := openFiles(path, false)
	if err == nil {
		err = f.note()
	}
	if err == nil {
		err = f.shared()
	}
	if err != nil {
		t.Fatal(err)
	}
	b := f.hang()
	if b == nil {
		t.Fatal("no bell")
	}
	b.most = 50 * time.Millisecond
	t.Cleanup(func() {
		if err := b.take(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A listener hears one bell for client "a".
type listener struct {
	t      *testing.T
	rings  *bell // another one at the same place
	rung   atomic.Int64
	sleeps atomic.Int64 // how often it has gone to sleep
}

// listens has one hear until the test ends, or the function that it returns is called.
func listens(t *testing.T) (l *listener, stop func()) {
	t.Helper()
	path := lockFile(t)
	open(t, path)
	l = &listener{t: t, rings: bellOf(t, path)}
	hears, ended := bellOf(t, path), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		hears.Hear(ctx, "a", func() bool { l.sleeps.Add(1); return true }, func() { l.rung.Add(1) }, func() {})
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return l, stop
}

// sleep rings for some clients, again and again, until the listener goes to sleep for the next time but one: it was rung for
// while it slept, and what it then had to do is done.
func (l *listener) sleep(rings ...string) {
	l.t.Helper()
	until := l.sleeps.Load() + 2
	servertest.Until(l.t, "the listener sleeps again", func() bool {
		l.rings.Ring(rings)
		return l.sleeps.Load() >= until
	})
}

func TestBell(t *testing.T) {
	l, stop := listens(t)
	for range 50 {
		if l.sleep("b", "a"); l.rung.Load() >= 3 {
			break
		}
	}
	if got := l.rung.Load(); got < 3 {
		t.Errorf("the client heard %d of its rings, want 3", got)
	}
	stop()
}

// Nobody is woken by the ring for another, unless both have one bit.
func TestBellOfAnother(t *testing.T) {
	if bits("a") == bits("b") || bits("a", "b") != bits("a")|bits("b") {
		t.Fatalf("bits of a and b are %b and %b", bits("a"), bits("b"))
	}
	l, stop := listens(t)
	for range 100 {
		if l.sleep("a"); l.rung.Load() > 0 {
			break
		}
	}
	l.sleep() // until it has heard the last of those
	before := l.rung.Load()
	if before == 0 {
		t.Fatal("the client does not hear its bell")
	}
	for range 5 {
		l.sleep("b")
	}
	if got := l.rung.Load() - before; got != 0 {
		t.Errorf("the client heard %d rings for another, want none", got)
	}
	stop() // by its own bell
}

// A ring is not missed because it came while nobody slept, unless somebody has looked since.
func TestBellWhileNobodySleeps(t *testing.T) {
	path := lockFile(t)
	d, b := open(t, path), bellOf(t, path)
	for what, looks := range map[string]bool{"nobody looks": false, "somebody looks": true} {
		before, rung := true, 0
		b.Looks()
		b.Hear(t.Context(), "a", func() bool {
			if !before {
				return false
			}
			before = false
			enter(t, d, claim(what, time.Minute), true)
			b.Ring([]string{"a"})
			if looks {
				b.Looks()
			}
			return true
		}, func() { rung++ }, func() {})
		if want := map[bool]int{false: 1, true: 0}[looks]; rung != want {
			t.Errorf("%s: rung %d times, want %d", what, rung, want)
		}
	}
}

// One that shares the file and does not ring, since it has no bell, has a waiter told all the same.
func TestWaiterBesideOneThatDoesNotRing(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	b := d.(*store).bell
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	mute, err := sqldb.New(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	for range 3 {
		held, next := claim("x", time.Minute), claim("x", time.Minute)
		enter(t, mute, held, true)
		enter(t, d, next, false)
		told := make(chan error, 1)
		go func() {
			p, err := d.Await(drive.Timely(t), next)
			if err == nil && !p.Holds {
				err = driver.ErrGone
			}
			told <- err
		}()
		servertest.Until(t, "the waiter has looked", func() bool {
			count, ok := b.count()
			return ok && b.looked.Load() == count
		})
		leave(t, mute, held)
		if err := <-told; err != nil {
			t.Fatalf("await: %v; want to hold", err)
		}
		leave(t, d, next)
	}
}

// A listener whose context ends just before it goes to sleep does not sleep on.
func TestBellEndsBeforeASleep(t *testing.T) {
	l, _ := listens(t) // hears when the end is rung for
	b := l.rings
	b.most = time.Hour
	b.Looks()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Hear(ctx, "a", func() bool {
			before := l.rung.Load()
			cancel()
			servertest.Until(t, "the end is rung for", func() bool { return l.rung.Load() > before })
			return true
		}, func() {}, func() {})
	}()
	select {
	case <-ended:
	case <-drive.Timely(t).Done():
		t.Fatal("the listener sleeps, and its context has ended")
	}
}

// A listener goes when nobody wants it, and outlives an index that was cut off, which would end the process otherwise.
func TestBellThatNobodyWants(t *testing.T) {
	index, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for _, size := range []int64{int64(os.Getpagesize()), 0} {
		if err := index.Truncate(int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		b := bellIn(int(index.Fd()))
		if err := index.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if _, ok := b.count(); ok != (size > 0) {
			t.Errorf("an index of %d bytes has a count: %v", size, ok)
		}
		b.most = 50 * time.Millisecond
		left := 2
		b.Hear(t.Context(), "a", func() bool { left--; return left > 0 }, func() { t.Error("rung, and nobody rang") }, func() {})
		if err := b.take(); err != nil {
			t.Error(err)
		}
	}
}
