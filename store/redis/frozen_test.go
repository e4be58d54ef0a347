package redis

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// If a server behind Sentinel, or a primary of a cluster, freezes, a call ends after one bounded wait.
func TestMemberFreezes(t *testing.T) {
	t.Parallel()
	for name, member := range map[string]func(*servertest.Sentinels) *servertest.Server{
		"primary":  func(set *servertest.Sentinels) *servertest.Server { return set.Primary },
		"replica":  func(set *servertest.Sentinels) *servertest.Server { return set.Replica },
		"sentinel": func(set *servertest.Sentinels) *servertest.Server { return set.Sentinel },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := servertest.RedisSentinel(t)
			drive.SilentMember(t, "redis+sentinel://"+set.Sentinel.Addr+"/"+set.Name, "name", func() {
				set.Settle(t)
				member(set).Pause()
				t.Cleanup(member(set).Resume)
			})
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		nodes := servertest.RedisCluster(t, "--cluster-node-timeout", "60000") // it stays in the cluster's list
		slots := []string{"a", "b", "c", "d", "e", "f"}                        // on all of the nodes
		for _, name := range slots {
			t.Run(name, func(t *testing.T) {
				drive.SilentMember(t, "redis+cluster://"+nodes[0].Addr, name, func() {
					nodes[1].Pause()
					t.Cleanup(nodes[1].Resume)
				})
			})
		}
	})
}
