//go:build !unix

package mysql

import "net"

// awaitData cannot wait on this system. The next statement on a connection notices its end.
func awaitData(net.Conn) bool { return false }

func watchable(c net.Conn) net.Conn { return c }

func hasData(net.Conn) bool { return false }
