package consul

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// soon bounds the time until a lease is lost after an operator removed its key, whatever the length of the lease.
const soon = 3 * time.Second

// An operator who removes or changes a holder's key ends its lease at once, with the reason.
func TestHolderIsRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	c := lockers(t, "consul://"+s.Addr, nil)
	for _, test := range []struct {
		name string
		do   func(o operator, e *entry)
		want stile.Reason
	}{
		{"deleted", operator.remove, stile.ReasonRemoved},
		{"session destroyed", operator.destroy, stile.ReasonSessionOver},
		{"deleted and put back", func(o operator, e *entry) {
			o.remove(e)
			o.must(http.MethodPut, "kv/"+escape(e.Key), "mine now")
		}, stile.ReasonRemoved},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lane := awake.Lane(t)
			by := operator{t, "http://" + s.Addr}
			lease := lockOf(t, c.Mutex(test.name))
			key := by.queued(test.name, 1)[0]
			test.do(by, key)
			if e := lost(t, lane, lease, soon); e.Reason != test.want {
				t.Errorf("the lease is lost since %v; want %v", e.Reason, test.want)
			}
			if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
				t.Errorf("unlock = %v; want ErrLost", err)
			}
			lease = lockOf(t, lockers(t, "consul://"+s.Addr, nil).Mutex(test.name))
			if err := lease.Unlock(); err != nil {
				t.Errorf("unlock by the next = %v", err)
			}
		})
	}
}

// If a lock loses its key, a client of Consul's own could take the lock. The next renewal notices.
func TestLockKeyIsRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	lane := awake.Lane(t)
	const ttl = 9 * time.Second // a third of it passes until the next renewal
	c := lockers(t, "consul://"+s.Addr, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
	lease := lockOf(t, c.Mutex("name"))
	operator{t, "http://" + s.Addr}.must(http.MethodDelete, "kv/stile/name/.lock", "")
	if e := lost(t, lane, lease, ttl/3+soon); e.Reason != stile.ReasonRemoved {
		t.Errorf("the lease is lost since %v; want %v", e.Reason, stile.ReasonRemoved)
	}
}

// A waiter whose claim is gone gets an error, never the lock, and the other claims are not disturbed.
func TestWaiterIsRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	for name, test := range map[string]struct {
		do func(operator, *entry)
	}{"deleted": {operator.remove}, "destroyed": {operator.destroy}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := operator{t, "http://" + s.Addr}
			lease := lockOf(t, lockers(t, "consul://"+s.Addr, nil).Mutex(name))
			ended, displaced := make(chan error, 1), make(chan struct{}, 1)
			waiters := lockers(t, "consul://"+s.Addr, &stile.Options{
				LockOptions: stile.LockOptions{TTL: 9 * time.Second}, Observer: func(e stile.Event) {
					if e.Kind == stile.EventDisplaced {
						displaced <- struct{}{}
					}
				},
			})
			go func() {
				_, err := waiters.Mutex(name).Lock(t.Context())
				ended <- err
			}()
			was := by.queued(name, 2)[1]
			test.do(by, was)
			<-displaced
			if now := by.queued(name, 2)[1]; now.ticket() <= was.ticket() {
				t.Errorf("the waiter comes back with ticket %d after %d; want to be at the tail", now.ticket(), was.ticket())
			}
			if err := lease.Unlock(); err != nil {
				t.Errorf("the holder = %v; want nil", err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the waiter = %v; want the lock", err)
			}
		})
	}
}

// A holder that is cut off keeps its lease no longer than the server, and a waiter gets the lock after that.
func TestHolderIsCutOff(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	proxy := servertest.NewProxy(t, s.Addr)
	lane := awake.Lane(t)
	const ttl = 4 * time.Second // the claim holds when the waiter enters
	brief := &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}}
	lease := lockOf(t, lockers(t, "consul://"+proxy.Addr, brief).Mutex("name"))
	next := make(chan *stile.Lease, 1)
	go func() {
		l, _ := lockers(t, "consul://"+s.Addr, nil).Mutex("name").Lock(timely(t))
		next <- l
	}()
	operator{t, "http://" + s.Addr}.queued("name", 2)
	proxy.Freeze(true, true)
	if e := lost(t, lane, lease, ttl+2*time.Second); e.Reason != stile.ReasonExpired {
		t.Errorf("the lease is lost since %v; want %v", e.Reason, stile.ReasonExpired)
	}
	select {
	case <-next:
		t.Error("the next had the lock before the lease was lost")
	default:
	}
	if l := <-next; l == nil || l.Token() <= lease.Token() {
		t.Errorf("the next lease is %+v; want one with a higher token", l)
	}
}

// The server is killed while one claim holds and one waits, and comes back with both.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	one, two := open(t, "consul://"+s.Addr), open(t, "consul://"+s.Addr)
	a, b := claimOn("name"), claimOn("name")
	holds(t, one, a)
	waits(t, two, b)
	woken := make(chan error, 1)
	go func() {
		_, err := two.Await(timely(t), b)
		woken <- err
	}()
	s.Kill()
	if err := <-woken; !driver.IsUnreachable(err) {
		t.Errorf("await = %v; want that consul is not there", err)
	}
	var err error
	servertest.Until(t, "the client has seen that its connections are gone", func() bool {
		_, err = one.Enter(timely(t), a)
		return driver.NotApplied(err)
	})
	says(t, err, "consul cannot be reached", "refused")
	if !driver.IsUnreachable(err) {
		t.Errorf("enter = %v; want that it may work later", err)
	}
	s.Restart()
	servertest.Until(t, "the holder is found again", func() bool { return renew(t, one, a) == nil })
	ticket := b.Ticket
	if p := enter(t, two, b); p.Holds || p.Ahead != 1 || p.Ticket != ticket {
		t.Errorf("the waiter's place is %+v; want ticket %d behind one", p, ticket)
	}
	leave(t, one, a)
	if _, err := two.Await(timely(t), b); err != nil {
		t.Errorf("await = %v", err)
	}
	holds(t, two, b)
}

// The answer to the request that takes the lock is lost. The client finds the claim again, once.
func TestReplyOfEnterIsLost(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	proxy := servertest.NewProxy(t, s.Addr)
	d := open(t, "consul://"+proxy.Addr)
	warm := claimOn("other")
	holds(t, d, warm)
	leave(t, d, warm) // its session is ready for the next claim

	c := claimOn("name")
	proxy.Freeze(false, true)
	failed := make(chan error, 1)
	go func() {
		_, err := d.Enter(timely(t), c)
		failed <- err
	}()
	by.queued("name", 1)
	proxy.Drop()
	if err := <-failed; err == nil || driver.NotApplied(err) {
		t.Fatalf("enter = %v; want an error that leaves the outcome open", err)
	}
	holds(t, d, c)
	if list := by.queued("name", 1); list[0].ticket() != c.Ticket {
		t.Errorf("the claim has ticket %d; want %d", list[0].ticket(), c.Ticket)
	}
	leave(t, d, c)
	if left := by.under("stile/"); len(left) != 0 {
		t.Errorf("the store has %+v; want nothing", left)
	}
	// A session that may have a request on its way serves no other claim.
	servertest.Until(t, "the session is ended", func() bool { return by.sessions() == 0 })
}

// The request that takes the lock is lost, which the client cannot know. Before the claim enters again, the client makes
// sure that the request can no longer take effect.
func TestRequestOfEnterIsLost(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	proxy := servertest.NewProxy(t, s.Addr)
	d := open(t, "consul://"+proxy.Addr)
	warm := claimOn("other")
	holds(t, d, warm)
	leave(t, d, warm)
	ghost := d.sessions.idle[kind{warm.TTL, 0}][0].id

	c := claimOn("name")
	proxy.Freeze(true, false)
	failed := make(chan error, 1)
	go func() {
		_, err := d.Enter(timely(t), c)
		failed <- err
	}()
	servertest.Until(t, "the request is held back", proxy.Holds)
	proxy.Drop()
	if err := <-failed; err == nil || driver.NotApplied(err) {
		t.Fatalf("enter = %v; want an error that leaves the outcome open", err)
	}
	holds(t, d, c)
	if list := by.queued("name", 1); list[0].Session == ghost {
		t.Error("the claim has the session with which a request was on its way")
	}
	if status, _ := by.do(http.MethodPut, "session/renew/"+ghost, ""); status != http.StatusNotFound {
		t.Errorf("the session that the request needs is there (status %d)", status)
	}
	leave(t, d, c)
}

// A stopped server answers nothing. A call still ends with its context, and its outcome is unknown.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	lane := awake.Lane(t)
	d := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	holds(t, d, c)
	s.Pause()
	defer s.Resume()
	start := time.Now()
	ctx, cancel := contextOf(t, 100*time.Millisecond)
	defer cancel()
	for verb, err := range map[string]error{
		"renew": d.Renew(ctx, []*driver.Claim{c})[0].Err,
		"leave": d.Leave(ctx, &driver.Release{Claim: c}),
	} {
		if err == nil || errors.Is(err, driver.ErrGone) {
			t.Errorf("%s = %v while the server hangs", verb, err)
		}
	}
	lane.Within(time.Since(start), 2*time.Second, "the end of two calls with their context")
}
