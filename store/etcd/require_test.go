package etcd

import (
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A client that requires failover loses its leases when the cluster becomes too small for a failover.
func TestRequiredAfterMemberIsRemoved(t *testing.T) {
	t.Parallel()
	list := servertest.EtcdCluster(t, 3)
	admin := operator(t, list[0].Addr)
	drive.Unfit(t, &drive.Worsening{
		URL: "etcd://" + list[0].Addr, Require: driver.TraitFailover, Says: "three members", TTL: 30 * time.Second,
		Worsen: func() {
			members, err := admin.MemberList(drive.Timely(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range members.Members {
				if slices.Contains(m.ClientURLs, "http://"+list[2].Addr) {
					servertest.Until(t, "the cluster lets a member be removed", func() bool {
						_, err := admin.MemberRemove(drive.Timely(t), m.ID) // a cluster that just came up refuses it
						return err == nil
					})
					return
				}
			}
			t.Fatalf("no member serves at %s: %+v", list[2].Addr, members.Members)
		},
	})
}
