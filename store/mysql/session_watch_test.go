//go:build unix

package mysql

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stilelock/stile/internal/work"
)

// Closing a watched connection closes it for the other side too, and ends the wait for its end.
func TestWatchedIsClosed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	c := watchable(raw)
	if _, is := c.(*watched); !is {
		t.Fatalf("a connection of TCP is %T; want one that is watched", c)
	}
	life := work.Begin()
	found := make(chan bool, 2)
	await := func() { life.Go(func() { found <- awaitData(c) }) }
	await()
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if !<-found || !hasData(c) {
		t.Error("what can be read is not seen")
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if hasData(c) {
		t.Error("what was read is seen again")
	}
	await()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if <-found {
		t.Error("the end of the wait is taken for the other side's end")
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other side reads %v; want the end", err)
	}
	life.End()
	life.Wait()
}
