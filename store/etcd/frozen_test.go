package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// If one of three members freezes, a client gives up its first request there after half a second, and asks another member.
func TestMemberFreezes(t *testing.T) {
	for name, step := range map[string]int{"leader": 0, "follower": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := servertest.EtcdCluster(t, 3)
			drive.Frozen(t, "etcd://"+strings.Join(addresses(members), ","), 3*time.Second, func() {
				at := (leader(t, members) + step) % 3
				members[at].Pause()
				t.Cleanup(members[at].Resume)
				leader(t, []*servertest.Server{members[(at+1)%3], members[(at+2)%3]})
			})
		})
	}
}
