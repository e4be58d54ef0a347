package etcd_test

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that starts may leave a request without an answer: the client turns to another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	drive.Silent(t, servertest.Etcd(t).Addr, func(addrs ...string) string { return "etcd://" + addrs[0] })
}

// A URL may have the zone of an IPv6 address.
func TestZone(t *testing.T) {
	t.Parallel()
	drive.Zone(t, servertest.Etcd(t).Addr, func(addrs ...string) string { return "etcd://" + addrs[0] })
}
