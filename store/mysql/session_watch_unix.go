//go:build unix

package mysql

import (
	"net"
	"os"
	"syscall"
)

// A watched connection has a second descriptor, on which a goroutine waits for its end. On the first descriptor this wait
// would disturb readers: each answer would wake the watcher, and the watcher the reader. A lock and unlock takes 72 µs with
// two descriptors and 118 µs with one, beside 67 µs for GET_LOCK. The hand-over to another process takes 1.5 and 1.6 times
// as long as with GET_LOCK, on a busy machine: go run . -store=mysql -only='alone|handover' in the folder bench.
type watched struct {
	*net.TCPConn
	eye *os.File
}

// Close closes both descriptors: a connection lives as long as either.
func (w *watched) Close() error {
	err := w.TCPConn.Close()
	w.eye.Close()
	return err
}

// watchable returns a connection whose end can be awaited while others read from it.
func watchable(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	eye, err := tcp.File()
	if err != nil {
		return c
	}
	return &watched{tcp, eye}
}

// awaitData returns when a connection has something to read, which may be its end. It reports false if it cannot know, or if
// this side has closed the connection.
func awaitData(c net.Conn) bool {
	if w, ok := c.(*watched); ok {
		return peek(w.eye, true)
	}
	return peek(c, true)
}

// hasData reports whether a connection has something to read, or has ended.
func hasData(c net.Conn) bool { return peek(c, false) }

func peek(c any, wait bool) (found bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return !wait
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		found = err != syscall.EAGAIN && err != syscall.EINTR
		return found || !wait
	})
	return found || err != nil && !wait
}
