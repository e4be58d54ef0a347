package etcd

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// If a server takes fewer operations in a transaction than the default, the driver renews claims, and removes the claims of
// earlier runs, by smaller transactions.
func TestFewOperations(t *testing.T) {
	t.Parallel()
	d := open(t, servertest.Etcd(t, "--max-txn-ops=16").Addr)
	var claims []*driver.Claim
	for i := range 40 {
		c := claimOn(fmt.Sprintf("name-%d", i))
		c.Ticket = enter(t, d, c).Ticket
		claims = append(claims, c)
	}
	for i, r := range d.Renew(timely(t), claims) {
		if r.Err != nil {
			t.Fatalf("renewal %d = %v; want nil", i, r.Err)
		}
	}
	for range 20 {
		c := claimOn("many")
		c.Owner, c.Weight = "job", 1
		enter(t, d, c)
	}
	c := claimOn("many")
	c.Owner, c.Reclaim = "job", true
	if p, err := d.Enter(timely(t), c); err != nil || !p.Holds {
		t.Errorf("reclaim of 20 = %+v, %v", p, err)
	}
}
