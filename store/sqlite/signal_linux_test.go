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

// signalOf opens another signal of an open file.
func signalOf(t *testing.T, path string) *futexSignal {
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
	b := f.openSignal()
	if b == nil {
		t.Fatal("no signal")
	}
	b.most = 50 * time.Millisecond
	t.Cleanup(func() {
		if err := b.take(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A listener listens on one signal for client "a".
type listener struct {
	t      *testing.T
	wakes  *futexSignal // another signal in the same index
	woken  atomic.Int64
	sleeps atomic.Int64 // the number of sleeps
}

// listens starts a listener, which ends with the test or by the returned function.
func listens(t *testing.T) (l *listener, stop func()) {
	t.Helper()
	path := lockFile(t)
	open(t, path)
	l = &listener{t: t, wakes: signalOf(t, path)}
	hears, ended := signalOf(t, path), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		hears.Listen(ctx, "a", func() bool { l.sleeps.Add(1); return true }, func() { l.woken.Add(1) }, func() {})
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return l, stop
}

// sleep wakes clients repeatedly until the listener has gone to sleep twice: it was woken while it slept, and has done its
// work since.
func (l *listener) sleep(wakes ...string) {
	l.t.Helper()
	until := l.sleeps.Load() + 2
	servertest.Until(l.t, "the listener sleeps again", func() bool {
		l.wakes.Wake(wakes)
		return l.sleeps.Load() >= until
	})
}

func TestSignal(t *testing.T) {
	l, stop := listens(t)
	for range 50 {
		if l.sleep("b", "a"); l.woken.Load() >= 3 {
			break
		}
	}
	if got := l.woken.Load(); got < 3 {
		t.Errorf("the client heard %d of its wakeups, want 3", got)
	}
	stop()
}

// A wakeup wakes no other client, unless both have the same bit.
func TestSignalOfAnother(t *testing.T) {
	if bits("a") == bits("b") || bits("a", "b") != bits("a")|bits("b") {
		t.Fatalf("bits of a and b are %b and %b", bits("a"), bits("b"))
	}
	l, stop := listens(t)
	for range 100 {
		if l.sleep("a"); l.woken.Load() > 0 {
			break
		}
	}
	l.sleep() // until the last wakeup has come
	before := l.woken.Load()
	if before == 0 {
		t.Fatal("the client does not hear its signal")
	}
	for range 5 {
		l.sleep("b")
	}
	if got := l.woken.Load() - before; got != 0 {
		t.Errorf("the client heard %d wakeups for another, want none", got)
	}
	stop() // by its own signal
}

// A wakeup between two sleeps is not missed, unless a poll has come since.
func TestSignalWhileNobodySleeps(t *testing.T) {
	path := lockFile(t)
	d, b := open(t, path), signalOf(t, path)
	for what, looks := range map[string]bool{"nobody looks": false, "somebody looks": true} {
		before, woken := true, 0
		b.BeforePoll()
		b.Listen(t.Context(), "a", func() bool {
			if !before {
				return false
			}
			before = false
			enter(t, d, claim(what, time.Minute), true)
			b.Wake([]string{"a"})
			if looks {
				b.BeforePoll()
			}
			return true
		}, func() { woken++ }, func() {})
		if want := map[bool]int{false: 1, true: 0}[looks]; woken != want {
			t.Errorf("%s: woken %d times, want %d", what, woken, want)
		}
	}
}

// A process that shares the file and has no signal wakes nobody, and its changes still reach a waiter.
func TestWaiterBesideOneThatDoesNotRing(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	b := d.(*store).signal
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

// A listener whose context ends just before a sleep does not go on sleeping.
func TestSignalEndsBeforeASleep(t *testing.T) {
	l, _ := listens(t) // its context ends
	b := l.wakes
	b.most = time.Hour
	b.BeforePoll()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Listen(ctx, "a", func() bool {
			before := l.woken.Load()
			cancel()
			servertest.Until(t, "the end wakes it", func() bool { return l.woken.Load() > before })
			return true
		}, func() {}, func() {})
	}()
	select {
	case <-ended:
	case <-drive.Timely(t).Done():
		t.Fatal("the listener sleeps, and its context has ended")
	}
}

// A listener ends when it is not wanted, and survives an index that was cut off, which would otherwise end the process.
func TestSignalThatNobodyWants(t *testing.T) {
	index, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for _, size := range []int64{int64(os.Getpagesize()), 0} {
		if err := index.Truncate(int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		b := signalIn(int(index.Fd()))
		if err := index.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if _, ok := b.count(); ok != (size > 0) {
			t.Errorf("an index of %d bytes has a count: %v", size, ok)
		}
		b.most = 50 * time.Millisecond
		left := 2
		b.Listen(t.Context(), "a", func() bool { left--; return left > 0 }, func() { t.Error("woken, and nobody did it") }, func() {})
		if err := b.take(); err != nil {
			t.Error(err)
		}
	}
}
