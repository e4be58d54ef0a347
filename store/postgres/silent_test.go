package postgres

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
)

// A server that starts may leave a request unanswered. The client then uses another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := schema()
	drive.Silent(t, server.Addr, func(addrs ...string) string {
		return "postgres://postgres@" + addrs[0] + "/postgres?schema=" + s
	})
}

// A URL may have the zone of an IPv6 address.
func TestZone(t *testing.T) {
	t.Parallel()
	s := schema()
	drive.Zone(t, server.Addr, func(addrs ...string) string { return "postgres://postgres@" + addrs[0] + "/postgres?schema=" + s })
}
