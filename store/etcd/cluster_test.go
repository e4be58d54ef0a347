package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func addresses(members []*servertest.Server) (list []string) {
	for _, s := range members {
		list = append(list, s.Addr)
	}
	return list
}

// leader returns the index of the member that leads.
func leader(t testing.TB, members []*servertest.Server) int {
	t.Helper()
	at := -1
	servertest.Until(t, "there is a leader", func() bool {
		for i, s := range members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			status, err := operator(t, s.Addr).Status(ctx, s.Addr)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

// A holder and a waiter survive the loss of the leader, and of another member. A client that sees only one member, whichever
// it is, finds the lock held.
func TestMembersFail(t *testing.T) {
	t.Parallel()
	members := servertest.EtcdCluster(t, 3)
	addrs := addresses(members)
	c, other := lockers(t, nil, addrs...), lockers(t, nil, addrs...)
	if traits := c.Traits(); !traits.Failover || len(traits.Remarks()) != 0 {
		t.Errorf("traits of three members are %+v; want failover, and no note", traits)
	}
	lease := lock(t, c.Mutex("name").With(stile.LockOptions{TTL: 6 * time.Second}))
	for _, addr := range addrs {
		if _, err := lockers(t, nil, addr).Mutex("name").TryLock(timely(t)); !errors.Is(err, stile.ErrHeld) {
			t.Errorf("who sees %s alone gets %v; want ErrHeld", addr, err)
		}
	}
	taken := make(chan *stile.Lease, 1)
	go func() {
		l, err := other.Mutex("name").Lock(timely(t))
		if err != nil {
			t.Error(err)
		}
		taken <- l
	}()
	at := leader(t, members)
	members[at].Kill()
	live := (at + 1) % 3
	by := operator(t, members[live].Addr)
	servertest.Until(t, "another leads", func() bool { return etcdKeys(t, by, "stile/name/") == 2 })
	renewed(t, lease)
	members[at].Restart()
	members[live].Kill()
	renewed(t, lease)
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock = %v; want nil", err)
	}
	next := <-taken
	if next == nil || next.Token() <= lease.Token() {
		t.Fatalf("the next lease is %v", next)
	}
	unlock(t, next)
	// One of three members is still down. This must not make a lock fail.
	for range 20 {
		unlock(t, lock(t, c.Mutex("other")))
	}
}

func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	members := servertest.EtcdCluster(t, 3)
	c := lockers(t, nil, addresses(members)...)
	lease := lock(t, c.Mutex("name").With(stile.LockOptions{TTL: 6 * time.Second}))
	for range 3 {
		servertest.Until(t, "the leader moves", func() bool { // again, if the leader changed between the two requests
			at := leader(t, members)
			by := operator(t, members[at].Addr)
			status, err := by.Status(timely(t), members[(at+1)%3].Addr)
			if err != nil {
				t.Fatal(err)
			}
			_, err = by.MoveLeader(timely(t), status.Header.MemberId)
			if err != nil && !errors.Is(err, rpctypes.ErrNotLeader) {
				t.Fatal(err)
			}
			return err == nil
		})
		renewed(t, lease)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock = %v; want nil", err)
	}
}

// renewed waits until a lease is renewed: until its deadline is half a second later, since two reads of one deadline may
// differ a little.
func renewed(t *testing.T, lease *stile.Lease) {
	t.Helper()
	before := lease.Deadline().Add(time.Second / 2)
	servertest.Until(t, "the lease is renewed", func() bool { return lease.Deadline().After(before) })
}

// Without a quorum no claim enters, and no call hangs. With a quorum again, the claim is renewed and leaves.
func TestQuorumIsLost(t *testing.T) {
	t.Parallel()
	members := servertest.EtcdCluster(t, 3)
	lane := awake.Lane(t)
	addrs := addresses(members)
	d := open(t, addrs...)
	c := claimOn("name")
	enter(t, d, c)
	members[1].Kill()
	members[2].Kill()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	p, err := d.Enter(ctx, claimOn("name"))
	lane.Within(time.Since(start), 5*time.Second, "the end of a call whose context lasts for 3s")
	if err == nil {
		t.Fatalf("enter without a quorum = %+v", p)
	}
	if !driver.IsUnreachable(err) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("enter without a quorum = %v; want an error that says so", err)
	}
	members[1].Restart()
	servertest.Until(t, "the claim is renewed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return d.Renew(ctx, []*driver.Claim{c})[0].Err == nil
	})
	leave(t, d, c)
}

func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	c, other := lockers(t, nil, s.Addr), lockers(t, nil, s.Addr)
	lease := lock(t, c.Mutex("name"))
	taken := make(chan error, 1)
	go func() {
		l, err := other.Mutex("name").Lock(timely(t))
		if err == nil {
			err = l.Unlock()
		}
		taken <- err
	}()
	queued(t, operator(t, s.Addr), "stile/name/", 2)
	s.Kill()
	s.Restart()
	if err := lease.Check(); err != nil {
		t.Errorf("the lease = %v after a restart; want it to live", err)
	}
	servertest.Until(t, "the lock is released", func() bool {
		return lease.Unlock() == nil || errors.Is(lease.Check(), stile.ErrReleased)
	})
	if err := <-taken; err != nil {
		t.Errorf("the waiter = %v; want the lock", err)
	}
}

// A store that was replaced would give the same tokens again. So the driver rejects every request.
func TestStoreIsReplaced(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	holder := claimOn("name")
	for range 10 {
		c := claimOn("other")
		enter(t, d, c)
		leave(t, d, c)
	}
	enter(t, d, holder)
	s.Forget()
	servertest.Until(t, "the holder is told", func() bool { return errors.Is(renew(t, d, holder), driver.ErrGone) })
	_, err := d.Enter(timely(t), claimOn("name"))
	says(t, err, "not the one that answered before")
	if !driver.NotApplied(err) {
		t.Errorf("enter = %v; want it to be rejected", err)
	}
	enter(t, open(t, s.Addr), claimOn("name"))
}
