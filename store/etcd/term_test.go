package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Keep-alives count only if a later answer has the term of both leases.
func TestKeepAlivesCountInTheirTerm(t *testing.T) {
	t.Parallel()
	const had, told = 10 * time.Second, 20 * time.Second
	for life := range uint64(4) {
		for on := range uint64(5) { // 4 is none
			for term := uint64(1); term < 4; term++ {
				u := &upkeep{life: &lease{term: life, ends: had}, lifeBy: extension{time.Minute, told}}
				if u.on = u.life; on < 4 {
					u.on, u.onBy = &lease{term: on, ends: had}, extension{time.Hour, told + had}
				}
				want := life == term && (on == 4 || on == term)
				got := u.confirm(term)
				lives, hangs := had, had
				if want {
					lives, hangs = told, told+had
				}
				if on == 4 {
					hangs = lives
				}
				if got != want || u.life.ends != lives || u.on.ends != hangs {
					t.Errorf("leases of terms %d and %d, an answer of term %d: %v, and the leases end at %v and %v; "+
						"want %v, %v and %v", life, on, term, got, u.life.ends, u.on.ends, want, lives, hangs)
				}
			}
		}
	}
}

// steadyCluster starts three members with a long election timeout, so that a busy machine causes no election: the tests
// decide when the next term begins.
func steadyCluster(t testing.TB) []*servertest.Server {
	t.Helper()
	return servertest.EtcdCluster(t, 3, "--heartbeat-interval", "250", "--election-timeout", "2500")
}

// NewLeader makes another member the leader, and returns its term. It returns once all members know it.
func NewLeader(t testing.TB, addrs []string) uint64 {
	t.Helper()
	by := operator(t, addrs...)
	var term uint64
	servertest.Until(t, "another member leads", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		leads, next := "", uint64(0)
		for _, addr := range addrs {
			s, err := by.Status(ctx, addr)
			switch {
			case err != nil:
				return false
			case s.Leader == s.Header.MemberId:
				leads, term = addr, s.RaftTerm
			default:
				next = s.Header.MemberId
			}
		}
		if leads == "" || next == 0 {
			return false
		}
		_, err := operator(t, leads).MoveLeader(ctx, next)
		return err == nil
	})
	before := term
	servertest.Until(t, "all members know", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, addr := range addrs {
			s, err := by.Status(ctx, addr)
			if err != nil || s.Leader == 0 || s.RaftTerm <= before || s.RaftTerm < term {
				return false
			}
			term = s.RaftTerm
		}
		return true
	})
	return term
}

// leasesIn returns the ids of all leases in etcd.
func leasesIn(t testing.TB, by *clientv3.Client) (ids []clientv3.LeaseID) {
	t.Helper()
	r, err := by.Leases(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Leases {
		ids = append(ids, l.ID)
	}
	return ids
}

// revokeAll revokes leases, as a replaced leader does that goes on, and believes that they have run out.
func revokeAll(t testing.TB, by *clientv3.Client, leases []clientv3.LeaseID) {
	t.Helper()
	for _, id := range leases {
		_, _ = by.Revoke(timely(t), id) // some have ended, so it may fail
	}
}

// A claim outlives a replaced leader also if it is renewed by a driver that did not grant its leases. Its key then has the
// term of its new lease.
func TestReplacedLeaderEndsLeasesOfAnotherDriver(t *testing.T) {
	t.Parallel()
	addrs := addresses(steadyCluster(t))
	home, other, by := open(t, addrs...), open(t, addrs...), operator(t, addrs...)
	c := claimOn("name")
	c.Ticket = enter(t, home, c).Ticket
	if err := renew(t, other, c); err != nil {
		t.Fatal(err)
	}
	if k := other.claims.of(c.ID); k.life.state != leaseForeign {
		t.Errorf("the lease of a claim of another driver is in state %d; want it to be that driver's", k.life.state)
	}
	before := leasesIn(t, by)
	term := NewLeader(t, addrs)
	if err := renew(t, other, c); err != nil {
		t.Fatal(err)
	}
	revokeAll(t, by, before)
	if err := renew(t, other, c); err != nil {
		t.Errorf("renewal after a leader of an earlier term has ended the leases that it knew = %v; want nil", err)
	}
	r, err := by.Get(timely(t), "stile/name/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	e, k := only(r.Kvs), other.claims.of(c.ID)
	if life, _ := e.life(); e.created != c.Ticket || e.Term != term || life != e.lease || life != k.life.id {
		t.Errorf("the key is %+v; want that it hangs on a lease of term %d", e, term)
	}
	list, err := home.List(timely(t), &driver.Query{Name: "name"})
	if err != nil || len(list) != 1 || len(list[0].Claims) != 1 || list[0].Claims[0].Remaining <= 0 {
		t.Errorf("the list is %+v, %v; want one claim, whose time is not over", list, err)
	}
	leave(t, home, c)
	if n := home.pool.count; n != 0 {
		t.Errorf("%d leases of an earlier term are in the pool; want none", n)
	}
}

// If a claim lives by another lease than the one in its key's name, other drivers too give it its whole time.
func TestNewLeaseByAnotherDriver(t *testing.T) {
	t.Parallel()
	addrs := addresses(steadyCluster(t))
	home, enters, renews := open(t, addrs...), open(t, addrs...), open(t, addrs...)
	c := claimOn("name")
	c.Ticket = enter(t, home, c).Ticket
	NewLeader(t, addrs)
	if err := renew(t, home, c); err != nil {
		t.Fatal(err)
	}
	if p := enter(t, enters, c); p.TTL <= c.TTL/2 {
		t.Errorf("enter by another driver = %+v; want the whole time", p)
	}
	if r := renews.Renew(timely(t), []*driver.Claim{c})[0]; r.Err != nil || r.TTL <= c.TTL/2 {
		t.Errorf("renewal by another driver = %+v; want the whole time", r)
	}
	if life, on := renews.claims.leases(renews.claims.of(c.ID)); life != on {
		t.Error("the lease that a claim lives by is taken for two")
	}
}

// A put without an answer may attach a key to a lease that the driver is about to revoke, since the claim was found gone
// before. An Enter that finds the key gives it a new lease, and the claim outlives the revocation.
func TestKeyOnRevokedLease(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	c := claimOn("name")
	p := enter(t, d, c)
	k := d.claims.of(c.ID)
	d.claims.mu.Lock()
	d.claims.endLocked(k, claimGone)
	d.claims.mu.Unlock()
	d.pool.revokes([]*lease{k.home})
	if again := enter(t, d, c); !again.Holds || again.Ticket != p.Ticket || again.TTL <= c.TTL/2 {
		t.Errorf("entered again, the claim is at %+v; want it to hold by ticket %d and a whole lease", again, p.Ticket)
	}
	d.pool.revoke(t.Context(), []*lease{k.home})
	c.Ticket = p.Ticket
	if err := renew(t, d, c); err != nil {
		t.Errorf("after the revocation, the renewal says %v; want nil", err)
	}
	if d.pool.over[k.home.id] != 0 {
		t.Error("a lease that was revoked is still noted as about to be")
	}
}

// The time of a claim does not grow before its key is attached to a lease of the new term.
func TestClaimOfAnEarlierTermIsNotProlonged(t *testing.T) {
	t.Parallel()
	addrs := addresses(steadyCluster(t))
	d := open(t, addrs...)
	c := claimOn("name")
	enter(t, d, c)
	k := d.claims.of(c.ID)
	_, had := k.life.time(0)
	NewLeader(t, addrs)
	u, err := d.keepUp(timely(t), k)
	if err != nil {
		t.Fatal(err)
	}
	a := d.newAttempt(c)
	if _, err := d.look(timely(t), a, stands(d.sit(a), nil, nil)); err != nil {
		t.Fatal(err)
	}
	if _, has := k.life.time(0); u.confirm(a.v.term) || a.up.confirm(a.v.term) || has != had {
		t.Errorf("a claim ends at %v by keep-alives in the next term; want at %v, as before", has, had)
	}
	if err := renew(t, d, c); err != nil {
		t.Fatal(err)
	}
	if life, on := d.claims.leases(k); life == k.home || on != life || life.term != a.v.term {
		t.Errorf("a renewed claim lives by a lease of term %d; want %d", life.term, a.v.term)
	}
	if _, has := d.claims.of(c.ID).life.time(0); has <= had {
		t.Errorf("a renewed claim ends at %v; want later than at %v", has, had)
	}
}

// A lease in the pool serves no claim once the driver knows a new leader.
func TestPoolForgetsEarlierTerms(t *testing.T) {
	t.Parallel()
	addrs := addresses(steadyCluster(t))
	d := open(t, addrs...)
	pass := func() int64 {
		t.Helper()
		c := claimOn("name")
		enter(t, d, c)
		id := d.claims.of(c.ID).home.id
		leave(t, d, c)
		return id
	}
	first := pass()
	if again := pass(); again != first {
		t.Errorf("the next claim has lease %x; want %x, which the one before left", again, first)
	}
	NewLeader(t, addrs)
	pass() // the driver learns of the new leader
	if next := pass(); next == first {
		t.Error("a lease of an earlier term serves a claim")
	}
}

// While claims get new leases, other calls renew them and enter them again. None of these calls takes the end of an old
// lease for the end of its claim.
func TestNewLeasesBesideOtherCalls(t *testing.T) {
	t.Parallel()
	addrs := addresses(steadyCluster(t))
	d, by := open(t, addrs...), operator(t, addrs...)
	var claims []*driver.Claim
	for i := range 8 {
		c := claimOn(fmt.Sprint("name-", i))
		c.Ticket = enter(t, d, c).Ticket
		claims = append(claims, c)
	}
	for range 3 {
		before := leasesIn(t, by)
		NewLeader(t, addrs)
		ended := make(chan error)
		for range 3 {
			go func() {
				var err error
				for _, r := range d.Renew(timely(t), claims) {
					err = errors.Join(err, r.Err)
				}
				ended <- err
			}()
			go func() {
				var err error
				for _, c := range claims {
					_, e := d.Enter(timely(t), c)
					err = errors.Join(err, e)
				}
				ended <- err
			}()
		}
		for range 6 {
			if err := <-ended; err != nil && !driver.IsUnreachable(err) {
				t.Fatal(err)
			}
		}
		for _, c := range claims {
			if err := renew(t, d, c); err != nil {
				t.Fatal(err)
			}
		}
		revokeAll(t, by, before)
		for _, c := range claims {
			if err := renew(t, d, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}
