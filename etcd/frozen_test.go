package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// One of three members freezes, and resets no connection. A lease of 3 s lives on, and who has a second gets the lock: the first
// silence is met in half of it, and the next try goes elsewhere.
func TestMemberFreezes(t *testing.T) {
	for name, step := range map[string]int{"leader": 0, "follower": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := servertest.EtcdCluster(t, 3)
			at := (leader(t, members) + step) % 3
			c, other := lockers(t, nil, addresses(members)...), lockers(t, nil, addresses(members)...)
			lease := lock(t, c.Mutex("held").With(stile.LockOptions{TTL: 3 * time.Second}))
			unlock(t, lock(t, other.Mutex("name")))
			members[at].Pause()
			t.Cleanup(members[at].Resume)
			rest := []*servertest.Server{members[(at+1)%3], members[(at+2)%3]}
			leader(t, rest)
			failed := 0
			for range 20 {
				l, err := other.Mutex("name").LockWithin(t.Context(), time.Second)
				if err != nil {
					t.Log(err)
					failed++
					continue
				}
				unlock(t, l)
			}
			if failed > 1 {
				t.Errorf("%d of 20 locks fail within a second; want one at the most", failed)
			}
			for range 3 {
				before := lease.Deadline()
				servertest.Until(t, "the lease is renewed or lost", func() bool {
					return lease.Deadline().After(before) || lease.Check() != nil
				})
			}
			if err := lease.Check(); errors.Is(err, stile.ErrLost) {
				t.Errorf("the lease of 3 s is lost: %v", err)
			}
		})
	}
}
