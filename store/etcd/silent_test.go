package etcd_test

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that starts may leave a request unanswered. The client then uses another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	drive.Silent(t, servertest.Etcd(t).Addr, func(addrs ...string) string { return "etcd://" + addrs[0] })
}

// The host in a URL may be an IPv6 address with a zone.
func TestZone(t *testing.T) {
	t.Parallel()
	drive.Zone(t, servertest.Etcd(t).Addr, func(addrs ...string) string { return "etcd://" + addrs[0] })
}
