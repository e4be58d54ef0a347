package zookeeper_test

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// If too few servers for a failover are left in the ensemble, the traits show it: a client that requires a failover then
// loses its leases.
func TestRequiredAfterServersAreRemoved(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0)
	consists := func(config string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.config = config
	}
	const two = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\n"
	consists(two + "server.3=c:1:2:participant\n")
	d := open(t, "zk://"+f.addr)
	if got := d.Traits(); !got.Failover {
		t.Errorf("with three servers there is no failover: %q", got.Remarks())
	}
	consists(two)
	servertest.Until(t, "the driver no longer counts on a failover", func() bool { return !d.Traits().Failover })
	err := d.Traits().Require(driver.TraitFailover)
	if err == nil || !strings.Contains(err.Error(), "There are two servers that vote") {
		t.Errorf("a failover is required: %v; want an error with the number of servers", err)
	}
}
