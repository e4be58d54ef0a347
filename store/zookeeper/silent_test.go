package zookeeper_test

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that starts may never answer a request: the client turns to another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	drive.Silent(t, servertest.ZooKeeper(t).Addr, func(addrs ...string) string { return "zk://" + addrs[0] + "?session=60s" })
}

// A URL may have the zone of an IPv6 address.
func TestZone(t *testing.T) {
	t.Parallel()
	drive.Zone(t, servertest.ZooKeeper(t).Addr, func(addrs ...string) string { return "zk://" + addrs[0] })
}
