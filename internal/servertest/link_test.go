//go:build unix

package servertest

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// What is sent comes whole and in order, no sooner than the delay, and many requests are under way at once.
func TestLink(t *testing.T) {
	const delay, many = 20 * time.Millisecond, 50
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c) // ends when the test closes
	}()
	c, err := net.Dial("tcp4", NewLink(t, listener.Addr().String(), delay).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var sent []byte
	begin := time.Now()
	for i := range many {
		part := bytes.Repeat([]byte{byte(i)}, 100*i+1)
		sent = append(sent, part...)
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("what came back is not what was sent")
	}
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("took %v, less than twice %v", took, delay)
	}
}

// A link ends one side's connection when the other's ends.
func TestLinkEnds(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := net.Dial("tcp4", NewLink(t, listener.Addr().String(), time.Millisecond).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes and %v, want the end", n, err)
	}
}
