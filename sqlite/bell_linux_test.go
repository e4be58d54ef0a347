package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
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
	t.Cleanup(func() {
		if err := b.take(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// heard rings for some clients until the listener has heard it as often, or 100 times.
func heard(b *bell, rings []string, want int, rung <-chan struct{}) int {
	n := 0
	for range 100 {
		b.Ring(rings)
		select {
		case <-rung:
			if n++; n == want {
				return n
			}
		case <-time.After(5 * time.Millisecond):
		}
	}
	return n
}

func TestBell(t *testing.T) {
	path := lockFile(t)
	open(t, path)
	ctx, stop := context.WithCancel(t.Context())
	rung, ended := make(chan struct{}, 1000), make(chan struct{})
	listener := bellOf(t, path)
	go func() {
		defer close(ended)
		listener.Hear(ctx, "a", func() bool { return true }, func() { rung <- struct{}{} })
	}()
	b := bellOf(t, path)
	if got := heard(b, []string{"b", "a"}, 3, rung); got != 3 {
		t.Errorf("the client heard %d of its rings, want 3", got)
	}
	stop()
	<-ended
	for len(rung) > 0 {
		<-rung
	}
}

// Nobody is woken by the ring for another, unless both have one bit.
func TestBellOfAnother(t *testing.T) {
	if bits("a") == bits("b") || bits("a", "b") != bits("a")|bits("b") {
		t.Fatalf("bits of a and b are %b and %b", bits("a"), bits("b"))
	}
	path := lockFile(t)
	open(t, path)
	rung, ended := make(chan struct{}, 1000), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	b := bellOf(t, path)
	go func() {
		defer close(ended)
		b.Hear(ctx, "a", func() bool { return true }, func() { rung <- struct{}{} })
	}()
	if got := heard(b, []string{"a"}, 1, rung); got != 1 {
		t.Fatal("the client does not hear its bell")
	}
	if got := heard(b, []string{"b"}, 1, rung); got != 0 {
		t.Errorf("the client heard %d rings for another, want none", got)
	}
	stop()
	<-ended
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
		left := 2
		b.Hear(t.Context(), "a", func() bool { left--; return left > 0 }, func() { t.Error("rung, and nobody rang") })
		if err := b.take(); err != nil {
			t.Error(err)
		}
	}
}
