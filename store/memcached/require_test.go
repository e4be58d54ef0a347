package memcached

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A client that requires a fit store lets no claim in after its server came back without -M. The restart ends all leases in
// any case.
func TestRequiredAfterRestart(t *testing.T) {
	t.Parallel()
	fit, evicts := servertest.Memcached(t, "-M"), servertest.Memcached(t)
	way := servertest.NewProxy(t, fit.Addr)
	c, err := stile.Open(drive.Timely(t), "memcached://"+way.Addr, &stile.Options{
		Require: []driver.Trait{driver.TraitFit}, LockOptions: stile.LockOptions{TTL: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	lease, err := c.Mutex("name").Lock(drive.Timely(t))
	if err != nil {
		t.Fatal(err)
	}
	way.Retarget(evicts.Addr)
	way.Drop()
	drive.Shuts(t, c)
	select {
	case <-lease.Context().Done():
	case <-time.After(2 * time.Minute):
		t.Error("the lease is not lost")
	}
}
