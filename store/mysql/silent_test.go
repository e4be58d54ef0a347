package mysql

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
)

// A server that starts may leave a request unanswered. The client then uses another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	drive.Silent(t, server.Addr, func(addrs ...string) string { return "mysql://root@" + addrs[0] + "/" + name })
}

// A URL may have the zone of an IPv6 address.
func TestZone(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	drive.Zone(t, server.Addr, func(addrs ...string) string { return "mysql://root@" + addrs[0] + "/" + name })
}
