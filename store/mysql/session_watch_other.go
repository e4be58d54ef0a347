//go:build !unix

package mysql

import "net"

// awaitData cannot be told on this system. The end of a connection is noticed by the next statement on it.
func awaitData(net.Conn) bool { return false }

func watchable(c net.Conn) net.Conn { return c }

func hasData(net.Conn) bool { return false }
