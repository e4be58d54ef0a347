//go:build unix

package conn

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/awake"
)

// A spinner finds what has come, and looks less and less often as long as that is nothing.
func TestSpinner(t *testing.T) {
	near, far := connected(t)
	s := newSpinner(near)
	if s == nil {
		s = &spinner{} // of a machine with one processor
		s.raw, _ = near.(*net.TCPConn).SyscallConn()
		s.try = s.look
	}
	b := make([]byte, 16)
	say := func(text string) {
		t.Helper()
		if _, err := far.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// found has it look until it has found what was said: what is written is there only a moment later.
	found := func(want string) {
		t.Helper()
		var got bytes.Buffer
		for over := awake.For(time.Minute); got.Len() < len(want); {
			got.Write(b[:s.read(b)])
			select {
			case <-over:
				t.Fatalf("it found %q, want %q", got.String(), want)
			default:
			}
		}
		if got.String() != want {
			t.Fatalf("it found %q, want %q", got.String(), want)
		}
	}
	say("one")
	found("one")
	for want := 1; want <= mostRest; want = 2*want + 1 {
		if n := s.read(b); n != 0 || s.left != want {
			t.Fatalf("after a vain look it found %d bytes and does without %d looks, want %d", n, s.left, want)
		}
		for range want {
			if n := s.read(b); n != 0 {
				t.Fatalf("it found %d bytes", n)
			}
		}
		if s.left != 0 {
			t.Fatalf("it does without %d more looks", s.left)
		}
	}
	if s.read(b); s.left != mostRest {
		t.Errorf("it does without %d looks, want %d at the most", s.left, mostRest)
	}
	say("two")
	found("two")
	if s.rest != 0 || s.left != 0 {
		t.Errorf("having found something, it does without %d and %d looks", s.rest, s.left)
	}
	far.Close()
	if n := s.read(b); n != 0 {
		t.Errorf("it found %d bytes at the end", n)
	}
	if n := (*spinner)(nil).read(b); n != 0 {
		t.Errorf("none found %d bytes", n)
	}
}

// connected returns the two ends of a connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}
