package memcached_test

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that starts may leave a request unanswered. The client then uses another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	drive.Silent(t, servertest.Memcached(t).Addr, func(addrs ...string) string { return "memcached://" + addrs[0] })
}

// A URL may have the zone of an IPv6 address.
func TestZone(t *testing.T) {
	t.Parallel()
	drive.Zone(t, servertest.Memcached(t).Addr, func(addrs ...string) string { return "memcached://" + addrs[0] })
}
