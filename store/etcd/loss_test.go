package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/servertest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// soon bounds the time until a lease is lost after an operator removed its key, however long the lease was.
const soon = 3 * time.Second

// If an operator removes or replaces the key of a holder, its lease is lost at once, with the reason.
func TestHolderIsRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by := operator(t, s.Addr)
	c := lockers(t, nil, s.Addr)
	for _, test := range []struct {
		name string
		do   func(testing.TB, *clientv3.Client, string)
		want stile.Reason
	}{
		{"deleted", remove, stile.ReasonRemoved},
		{"revoked", revoke, stile.ReasonSessionOver},
		{"overwritten", func(t testing.TB, c *clientv3.Client, key string) {
			remove(t, c, key)
			if _, err := c.Put(timely(t), key, "mine now"); err != nil {
				t.Fatal(err)
			}
		}, stile.ReasonRemoved},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lane := awake.Lane(t)
			lease := lock(t, c.Mutex(test.name))
			key := queued(t, by, "stile/"+test.name+"/", 1)[0]
			test.do(t, by, key)
			if e := lost(t, lane, lease, soon); e.Reason != test.want {
				t.Errorf("the lease is lost since %v; want %v", e.Reason, test.want)
			}
			if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
				t.Errorf("unlock = %v; want ErrLost", err)
			}
		})
	}
}

// etcd's own lock service grants the lock to a waiter whose lease ran out in the queue (etcd issue 11456). A waiter of stile
// enters again, at the tail, and the holder goes on holding.
func TestWaiterIsRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by := operator(t, s.Addr)
	holders := lockers(t, nil, s.Addr)
	for name, do := range map[string]func(testing.TB, *clientv3.Client, string){"deleted": remove, "revoked": revoke} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lane := awake.Lane(t)
			displaced := make(chan struct{}, 1)
			waiters := lockers(t, &stile.Options{
				LockOptions: stile.LockOptions{TTL: 3 * time.Second},
				Observer: func(e stile.Event) {
					if e.Kind == stile.EventDisplaced {
						displaced <- struct{}{}
					}
				},
			}, s.Addr)
			lease := lock(t, holders.Mutex(name))
			folder := "stile/" + name + "/"
			holder := queued(t, by, folder, 1)[0]
			ended := make(chan error, 1)
			go func() {
				l, err := waiters.Mutex(name).Lock(t.Context())
				if err == nil {
					err = l.Unlock()
				}
				ended <- err
			}()
			both := queued(t, by, folder, 2)
			start := time.Now()
			for _, key := range both {
				if key != holder {
					do(t, by, key)
				}
			}
			select {
			case <-displaced:
			case <-awake.For(time.Minute):
				t.Fatal("the waiter does not notice that its key is gone")
			}
			lane.Within(time.Since(start), soon, "the waiter notices that its key is gone")
			queued(t, by, folder, 2) // it comes back at the tail
			if err := lease.Unlock(); err != nil {
				t.Errorf("unlock = %v; want nil", err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the waiter = %v; want the lock", err)
			}
		})
	}
}

// Two goroutines that share a session of etcd's package concurrency both hold its mutex (etcd pull request 5199). In stile,
// no two claims share a key.
func TestManyOnOneName(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	clients := []*stile.Client{lockers(t, nil, s.Addr), lockers(t, nil, s.Addr)}
	var (
		mu   sync.Mutex
		last int64
		all  sync.WaitGroup
	)
	inside := make(chan struct{}, 1)
	for i := range 16 {
		all.Go(func() {
			for range 20 {
				lease, err := clients[i%2].Mutex("hot").Lock(timely(t))
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case inside <- struct{}{}:
				default:
					t.Error("two hold the lock at once")
				}
				mu.Lock()
				if lease.Token() <= last {
					t.Errorf("token %d after token %d", lease.Token(), last)
				}
				last = lease.Token()
				mu.Unlock()
				<-inside
				if err := lease.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A server that hangs frees the lock after the lease has ended. The client has given the lock up before, however late the
// answers to its keep-alives come.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	lane := awake.Lane(t)
	c, other := lockers(t, nil, s.Addr), lockers(t, nil, s.Addr)
	lease := lock(t, c.Mutex("name").With(stile.LockOptions{TTL: 2 * time.Second}))
	s.Pause()
	if e := lost(t, lane, lease, soon); e.Reason != stile.ReasonExpired { // while the server cannot free it
		t.Errorf("the lease is lost since %v; want %v", e.Reason, stile.ReasonExpired)
	}
	s.Resume()
	next := lock(t, other.Mutex("name"))
	if next.Token() <= lease.Token() {
		t.Errorf("token %d after token %d", next.Token(), lease.Token())
	}
}

// If the answers to keep-alives are held back while etcd goes on, each renewal reaches etcd, and the client counts none. In
// etcd's package concurrency, a session then ends later than its lease.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	p := servertest.NewProxy(t, s.Addr)
	lane := awake.Lane(t)
	c, other := lockers(t, nil, p.Addr), lockers(t, nil, s.Addr)
	const ttl = 4 * time.Second // long enough that the lease lives when the other client has come
	lease := lock(t, c.Mutex("name").With(stile.LockOptions{TTL: ttl}))
	taken := make(chan time.Time, 1)
	go func() {
		if l, err := other.Mutex("name").Lock(timely(t)); err == nil {
			at := time.Now()
			unlock(t, l)
			taken <- at
		}
	}()
	queued(t, operator(t, s.Addr), "stile/name/", 2)
	p.Freeze(false, true)
	if e := lost(t, lane, lease, ttl+time.Second); e.Reason != stile.ReasonExpired {
		t.Errorf("the lease is lost since %v; want %v", e.Reason, stile.ReasonExpired)
	}
	over := lease.Deadline()
	p.Freeze(true, true) // a request that came now would renew the lease after its client gave it up
	if at := <-taken; at.Before(over) {
		t.Errorf("the next holder came %v before the lease was lost", over.Sub(at))
	}
	p.Mend()
}

// A late answer is not taken for the answer to a later keep-alive.
func TestLateAnswerOfAnotherRequest(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	p := servertest.NewProxy(t, s.Addr)
	m := &meter{sent: map[string]int{}}
	d := metered(t, m, p.Addr)
	c := claimOn("name")
	enter(t, d, c)
	p.Freeze(false, true)
	m.take()
	ctx, cancel := context.WithCancel(timely(t))
	defer cancel()
	renewed := make(chan error, 1)
	go func() { renewed <- d.Renew(ctx, []*driver.Claim{c})[0].Err }()
	servertest.Until(t, "the answer is held back", func() bool { return m.number("LeaseKeepAlive") > 0 && p.Holds() })
	cancel()
	if err := <-renewed; !errors.Is(err, context.Canceled) {
		t.Fatalf("renewal = %v; want that no answer came", err)
	}
	k := d.claims.of(c.ID)
	_, before := k.home.time(0)
	revoke(t, operator(t, s.Addr), k.key)
	go func() { renewed <- d.Renew(timely(t), []*driver.Claim{c})[0].Err }()
	servertest.Until(t, "the later request is sent", func() bool { return m.number("LeaseKeepAlive") > 1 })
	p.Freeze(false, false) // the late answer comes now
	if err := <-renewed; !errors.Is(err, driver.ErrSession) {
		t.Errorf("renewal after the lease was revoked = %v; want ErrSession", err)
	}
	if _, after := k.home.time(0); after != before {
		t.Errorf("the lease was made longer by %v, by an answer that came too late", after-before)
	}
}

// A lease's time begins before its keep-alive was sent, however long the answer took.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	p := servertest.NewProxy(t, s.Addr)
	m := &meter{sent: map[string]int{}}
	d := metered(t, m, p.Addr)
	c := claimOn("name")
	enter(t, d, c)
	k := d.claims.of(c.ID)
	ttl, _ := k.home.time(0)
	for what, ask := range map[string]func() error{
		"renew": func() error { return renew(t, d, c) },
		"enter": func() error { _, err := d.Enter(timely(t), c); return err },
	} {
		p.Freeze(false, true)
		m.take()
		answer := make(chan error, 1)
		go func() { answer <- ask() }()
		servertest.Until(t, "a keep-alive is sent", func() bool { return m.number("LeaseKeepAlive") > 0 })
		sent := boottime.Now()
		time.AfterFunc(300*time.Millisecond, func() { p.Freeze(false, false) })
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
		if _, left := k.home.time(sent); left > ttl {
			t.Errorf("%s: the lease ends %v after it was asked for; want %v at most", what, left, ttl)
		}
	}
}

// If somebody revokes a lease in the pool that is long enough for a lock-delay, the next claim with one takes another lease.
func TestPooledLeaseIsRevoked(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d, admin := open(t, s.Addr), operator(t, s.Addr)
	hold := func(id string) *driver.Claim {
		t.Helper()
		c := claimOn("name")
		c.ID, c.Delay = id, 7*time.Second
		enter(t, d, c)
		return c
	}
	c := hold("first")
	home, long := d.claims.leases(d.claims.of(c.ID))
	if long == home {
		t.Fatal("a claim with a lock-delay stands on its own lease")
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Revoke(timely(t), clientv3.LeaseID(long.id)); err != nil {
		t.Fatal(err)
	}
	c = hold("second")
	if err := renew(t, d, c); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	if _, now := d.claims.leases(d.claims.of(c.ID)); now == long {
		t.Error("the claim stands on the lease that was revoked")
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil {
		t.Fatal(err)
	}
}
