package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// The address of a server that granted a claim leads to another server, as after a failover to a replica that was behind, or
// to a spare. It was up all along, and is durable; but it does not have the claim, and so has no vote.
func TestRedlockReplacedNode(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 4, durable...)
	servers, spare := servers[:3], servers[3]
	servertest.Until(t, "the spare is older than a client", func() bool {
		up := spare.RedisInfo("uptime_in_seconds")
		return up != "" && up != "0" && up != "1" && up != "2"
	})
	proxies, partial := proxied(t, servers)
	d := openRedlock(t, partial+"?max_ttl=4s")
	other := openRedlock(t, strings.Join([]string{"redlock://" + servers[0].Addr, proxies[1].Addr, servers[2].Addr}, ",")+"?max_ttl=4s")
	proxies[2].Freeze(true, true) // the claim gets two servers
	c := redlockClaim("replaced", "holder")
	c.TTL = 4 * time.Second
	start := time.Now()
	holds(t, d, c)
	proxies[1].Retarget(spare.Addr)
	proxies[1].Drop()
	second := redlockClaim("replaced", "second")
	second.TTL, second.Try = time.Second, true
	for time.Since(start) < c.TTL-500*time.Millisecond {
		p, err := try(t, other, second)
		if took := time.Since(start); err == nil && p.Holds && took < c.TTL {
			t.Fatalf("a second claim holds %v after the first, of which one of two servers knows nothing; want it to wait for %v", took, c.TTL)
		}
	}
	servertest.Until(t, "the other server votes", func() bool {
		p, err := try(t, other, second)
		return err == nil && p.Holds
	})
}

// For one client the address of a server that granted a claim now leads to another of the servers, and the third is out of
// reach. The one reachable server does not count twice for a renewal: on the others the claim may have run out.
func TestRedlockTwinDoesNotRenew(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	proxies, partial := proxied(t, servers)
	d := openRedlock(t, partial)
	c := redlockClaim("twin", "holder")
	holds(t, d, c)
	servertest.Until(t, "all have it", func() bool { return on(servers, "twin") == 3 })
	proxies[2].Retarget(servers[0].Addr)
	proxies[2].Drop()
	proxies[1].Cut()
	if err := drive.Renew(t, d, c); err == nil || errors.Is(err, driver.ErrGone) {
		t.Errorf("a renewal by one server of three = %v; want an error that does not say that the claim is gone", err)
	}
}
