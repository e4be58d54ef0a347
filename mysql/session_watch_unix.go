//go:build unix

package mysql

import (
	"net"
	"syscall"
)

// awaitData returns when a connection has something to be read, be it its end. It is false if that cannot be known, or
// this side has closed the connection.
func awaitData(c net.Conn) bool { return peek(c, true) }

// hasData reports whether a connection has something to be read, or has ended.
func hasData(c net.Conn) bool { return peek(c, false) }

func peek(c net.Conn, wait bool) (found bool) {
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
