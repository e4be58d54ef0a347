package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// together runs calls of a driver whose requests wait, and then go together. The leases that they need must be in the pool.
func together(t testing.TB, d *Driver, calls ...func()) {
	t.Helper()
	done := busy(d)
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	wait(t, d, len(calls))
	done()
	all.Wait()
	d.batch.mu.Lock()
	defer d.batch.mu.Unlock()
	if d.batch.underWay != 0 || len(d.batch.waiting) != 0 {
		t.Errorf("%d underWay and %d requests are left", d.batch.underWay, len(d.batch.waiting))
	}
}

// busy makes all requests of a driver wait, until done is called.
func busy(d *Driver) (done func()) {
	d.batch.mu.Lock()
	defer d.batch.mu.Unlock()
	d.batch.underWay = mostUnderWay
	return func() {
		for range mostUnderWay {
			d.batch.done()
		}
	}
}

// wait returns when n requests of a driver wait.
func wait(t testing.TB, d *Driver, n int) {
	t.Helper()
	servertest.Until(t, "the requests wait", func() bool {
		d.batch.mu.Lock()
		defer d.batch.mu.Unlock()
		return len(d.batch.waiting) == n
	})
}

// provide puts leases for n claims into the pool.
func provide(t testing.TB, d *Driver, n int) {
	t.Helper()
	var leases []*lease
	for range n {
		l, err := d.pool.take(timely(t), d.pool.seconds(claimOn("").TTL))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	for _, l := range leases {
		d.pool.put(l)
	}
}

func TestManyNamesGoTogether(t *testing.T) {
	t.Parallel()
	for version, start := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			const n = 50
			m := &meter{sent: map[string]int{}}
			d := metered(t, m, start(t).Addr)
			provide(t, d, n)
			claims := make([]*driver.Claim, n)
			var enters, leaves []func()
			for i := range claims {
				c := claimOn(fmt.Sprint("name ", i))
				claims[i] = c
				enters = append(enters, func() {
					if p := enter(t, d, c); !p.Holds || p.Ticket == 0 {
						t.Errorf("place of %q = %+v; want one that holds", c.Name, p)
					}
				})
				leaves = append(leaves, func() { leave(t, d, c) })
			}
			m.take()
			together(t, d, enters...)
			if sent, _ := m.take(); sent["Txn"] != 1 || sent["LeaseGrant"] != 0 {
				t.Errorf("%d claims on as many names entered by %v; want one transaction", n, sent)
			}
			for _, c := range claims {
				if err := renew(t, d, c); err != nil {
					t.Errorf("renewal of %q = %v", c.Name, err)
				}
			}
			m.take()
			together(t, d, leaves...)
			// Watches may begin meanwhile, for claims that have held for a while.
			if sent, _ := m.take(); sent["Txn"] != 1 || sent["DeleteRange"] != 0 {
				t.Errorf("%d claims on as many names left by %v; want one transaction", n, sent)
			}
			for _, c := range claims {
				if err := d.Leave(timely(t), &driver.Release{Claim: c}); !errors.Is(err, driver.ErrGone) {
					t.Errorf("leaving %q again = %v; want ErrGone", c.Name, err)
				}
			}
		})
	}
}

// Requests of one name never go together: keys that one transaction creates have one create revision, so the claims would
// have one ticket.
func TestOneNameNeverGoesTogether(t *testing.T) {
	t.Parallel()
	const n = 8
	d := open(t, servertest.Etcd(t).Addr)
	provide(t, d, n)
	var mu sync.Mutex
	var tickets []int64
	var calls []func()
	for range n {
		c := claimOn("name")
		c.Weight = 1
		calls = append(calls, func() {
			p := enter(t, d, c)
			mu.Lock()
			defer mu.Unlock()
			tickets = append(tickets, p.Ticket)
		})
	}
	together(t, d, calls...)
	slices.Sort(tickets)
	if got := slices.Compact(slices.Clone(tickets)); len(got) != n {
		t.Errorf("tickets of %d readers = %v; want all different", n, tickets)
	}
}

// restrict returns a driver of a user who may use all names. limit leaves the user only the names that begin with mine.
func restrict(t testing.TB) (d *Driver, limit func()) {
	t.Helper()
	s := servertest.Etcd(t)
	guarded(t, s)
	opened, err := driver.Open(timely(t), "etcd://locks:hunter2@"+s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened.(*Driver), func() {
		end := clientv3.GetPrefixRangeEnd
		both := clientv3.PermissionType(clientv3.PermReadWrite)
		_, e1 := root(t, s).RoleGrantPermission(timely(t), "locks", "stile/mine", end("stile/mine"), both)
		_, e2 := root(t, s).RoleRevokePermission(timely(t), "locks", "stile/", end("stile/"))
		if err := errors.Join(e1, e2); err != nil {
			t.Fatal(err)
		}
	}
}

// answered renews claims until etcd has answered for each. The first request makes the client log in again. To check a
// password takes much processor time, so a slow member may not answer in time.
func answered(t testing.TB, d *Driver, claims ...*driver.Claim) (got []driver.Renewal) {
	t.Helper()
	servertest.Until(t, "renewals have an answer", func() bool {
		got = d.Renew(timely(t), claims)
		return !slices.ContainsFunc(got, func(r driver.Renewal) bool {
			return r.Err != nil && driver.OutcomeOf(r.Err) != driver.OutcomeRefused
		})
	})
	return got
}

// If a user may not write the keys of one name, requests for other names in the same transaction still work.
func TestARefusalIsForOneName(t *testing.T) {
	t.Parallel()
	d, limit := restrict(t)
	limit()
	provide(t, d, 3)
	mine, too, theirs := claimOn("mine"), claimOn("mine too"), claimOn("theirs")
	together(t, d,
		func() { enter(t, d, mine) },
		func() { enter(t, d, too) },
		func() {
			_, err := d.Enter(timely(t), theirs)
			says(t, err, `does not let user "locks"`)
		})
	for _, c := range []*driver.Claim{mine, too} {
		if err := answered(t, d, c)[0].Err; err != nil {
			t.Errorf("renewal of %q = %v; want it held", c.Name, err)
		}
	}
}

// If a user may not read the key of one claim any more, the other claims are still renewed.
func TestARefusedRenewalIsForOneName(t *testing.T) {
	t.Parallel()
	d, limit := restrict(t)
	claims := []*driver.Claim{claimOn("mine"), claimOn("theirs"), claimOn("mine too")}
	for _, c := range claims {
		enter(t, d, c)
	}
	limit()
	got := answered(t, d, claims...)
	if got[0].Err != nil || got[2].Err != nil {
		t.Errorf("renewals of what may be read = %v, %v; want nil", got[0].Err, got[2].Err)
	}
	says(t, got[1].Err, `does not let user "locks"`)
}

// A request that is taken back before it was sent is never sent, and its error says that it was not applied.
func TestARequestIsTakenBack(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	provide(t, d, 2)
	ctx, cancel := context.WithCancel(timely(t))
	defer cancel()
	done := busy(d)
	gone := make(chan error, 1)
	go func() {
		_, err := d.Enter(ctx, claimOn("goes"))
		gone <- err
	}()
	wait(t, d, 1)
	cancel()
	if err := <-gone; !driver.NotApplied(err) {
		t.Errorf("a request that was taken back = %v; want an error that says that it was not applied", err)
	}
	done()
	enter(t, d, claimOn("stays"))
	if left := keys(t, operator(t, s.Addr), "stile/"); len(left) != 1 {
		t.Errorf("keys = %q; want one", left)
	}
}

// A claim whose Enter failed has no subscription any more, since its client may never ask about it again.
func TestWhoNeverEnteredHearsNothing(t *testing.T) {
	t.Parallel()
	d, f := filled(t, servertest.Etcd(t).Addr)
	holder, waiter := claimOn("name"), claimOn("name")
	enter(t, d, holder)
	enter(t, d, waiter)
	ctx, cancel := context.WithCancel(timely(t))
	defer cancel()
	waits := make(chan struct{})
	go func() { defer close(waits); _, _ = d.Await(ctx, waiter) }()
	servertest.Until(t, "the client listens to the name", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.watches.open) == 1
	})
	provide(t, d, 1)
	done := busy(d)
	gone := make(chan error, 1)
	go func() { _, err := d.Enter(ctx, claimOn("name")); gone <- err }()
	wait(t, d, 1)
	cancel()
	if err := <-gone; driver.OutcomeOf(err) != driver.OutcomeUnsent {
		t.Errorf("a request that was taken back = %v; want it unsent", err)
	}
	<-waits
	done()
	f.set(false, puts)
	_, err := d.Enter(timely(t), claimOn("name"))
	if driver.OutcomeOf(err) != driver.OutcomeRefused || idle(d) != 1 {
		t.Errorf("enter = %v, and %d leases are in the pool; want it refused, and the lease that both had", err, idle(d))
	}
	// The transaction behind others has two operations: it puts, and reads the queue.
	f.set(true, func(txn *pb.TxnRequest) bool { return puts(txn) && len(txn.Success) == 2 })
	_, err = d.Enter(timely(t), claimOn("name"))
	if doubtful(t, err); idle(d) != 0 {
		t.Errorf("%d leases are in the pool; want none, since a key may hang on the one that was there", idle(d))
	}
	f.set(false, nil)
	leave(t, d, waiter)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.watches.open {
		for k := range w.claims {
			if k.id != holder.ID {
				t.Errorf("claim %s hears of what goes on by %q, and keeps %d events", k.id, w.name, len(k.early))
			}
		}
	}
}

// If a claim leaves while it is renewed, both calls find it gone. Its lease goes into the pool once, not twice.
func TestLeaseIsGivenBackOnce(t *testing.T) {
	d := open(t, servertest.Etcd(t).Addr)
	for range 30 {
		c := claimOn("once")
		drive.Holds(t, d, c)
		k := d.claims.of(c.ID)
		var both sync.WaitGroup
		both.Go(func() { _ = drive.Renew(t, d, c) })
		both.Go(func() { drive.Leave(t, d, c) })
		both.Wait()
		d.claims.end(k, claimGone) // as a renewal that learns of it last
		d.pool.mu.Lock()
		seen := map[int64]bool{}
		for _, list := range d.pool.idle {
			for _, l := range list {
				if seen[l.id] {
					t.Errorf("lease %x is in the pool twice", l.id)
				}
				seen[l.id] = true
			}
		}
		d.pool.mu.Unlock()
	}
}
