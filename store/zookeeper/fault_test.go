package zookeeper_test

import (
	"context"
	"errors"
	"github.com/stilelock/stile/internal/awake"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// TestFaults runs each fault on a name of its own and, if need be, behind a proxy of its own, before one server.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	for name, fault := range map[string]func(t *testing.T, s *servertest.Server){
		"reply to create lost": createReplyLost, "create abandoned": createAbandoned, "close during create": closeDuringCreate,
		"reply to delete lost": deleteReplyLost, "lease ends here": leaseEndsHere,
		"node removed while waiting": removedWhileWaiting, "node removed while holding": removedWhileHolding,
		"session over while holding": sessionOverHolding, "session over while waiting": sessionOverWaiting,
		"short cut while waiting": shortCutWaiting, "short cut while holding": shortCutHolding,
		"deadline before the ensemble's": deadlineFirst, "waits end": waitsEnd,
		"close keeps claims": closeKeeps, "close without claims": closeWithout,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault(t, s)
		})
	}
}

// applied has a driver enter a claim, whose node is made and whose answer is lost with the connection.
func applied(t *testing.T, s *servertest.Server, c *driver.Claim) (driver.Driver, *admin) {
	t.Helper()
	p, url := behind(t, s)
	d, a := open(t, url), newAdmin(t, s.Addr)
	a.create("/stile", "/stile/"+c.Name) // or the driver would wait for the answer about these
	p.Freeze(false, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := d.Enter(ctx, c)
		done <- err
	}()
	a.until(c.Name, 1)
	cancel()
	if err := <-done; err == nil || driver.NotApplied(err) {
		t.Errorf("enter without a reply = %v; want an error that leaves the outcome open", err)
	}
	p.Drop()
	return d, a
}

// Curator left a ghost: Netflix/curator#3. A node that is asked for twice exists once.
func createReplyLost(t *testing.T, s *servertest.Server) {
	c := claim("reply-lost")
	d, a := applied(t, s, c)
	p := enter(t, d, c, true)
	if n := len(a.children("/stile/" + c.Name)); n != 1 {
		t.Errorf("the claim has %d nodes; want 1", n)
	}
	if node := a.node(c); p.Ticket == 0 || node == "" {
		t.Errorf("enter = %+v; want the ticket of %s", p, node)
	}
	leave(t, d, c)
	a.until(c.Name, 0)
}

// go-zookeeper leaves the node of a lock that failed: samuel/go-zookeeper#229.
func createAbandoned(t *testing.T, s *servertest.Server) {
	c := claim("abandoned")
	c.TTL, c.Wait = 3*time.Second, 3*time.Second
	_, a := applied(t, s, c)
	a.until(c.Name, 0)
}

// Curator left a node for ever: CURATOR-18.
func closeDuringCreate(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s, "session=4s")
	d, a := open(t, url), newAdmin(t, s.Addr)
	c := claim("closed")
	a.create("/stile", "/stile/closed")
	p.Freeze(false, true)
	done := make(chan error, 1)
	go func() {
		_, err := d.Enter(t.Context(), c)
		done <- err
	}()
	a.until(c.Name, 1)
	d.Close()
	if err := <-done; err == nil || driver.NotApplied(err) {
		t.Errorf("enter while the driver is closed = %v; want an error that leaves the outcome open", err)
	}
	a.until(c.Name, 0) // with the session
}

func deleteReplyLost(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s)
	d, a := open(t, url), newAdmin(t, s.Addr)
	c := claim("delete-lost")
	enter(t, d, c, true)
	p.Freeze(false, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Leave(ctx, &driver.Release{Claim: c}) }()
	a.until(c.Name, 0)
	cancel()
	if err := <-done; err == nil || driver.NotApplied(err) {
		t.Errorf("leave without a reply = %v; want an error that leaves the outcome open", err)
	}
	p.Drop()
	err := reached(t, func() error { return d.Leave(t.Context(), &driver.Release{Claim: c}) })
	if err != nil && !errors.Is(err, driver.ErrGone) {
		t.Errorf("leave once more = %v; want nil, or ErrGone if that was done meanwhile", err)
	}
	enter(t, open(t, "zk://"+s.Addr), claim(c.Name), true)
}

// The driver ends a lease that is shorter than the session, even if its connection is away at that time.
func leaseEndsHere(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s)
	d, a := open(t, url), newAdmin(t, s.Addr)
	c := claim("short")
	c.TTL = 3 * time.Second
	enter(t, d, c, true)
	p.Cut()
	servertest.Until(t, "the lease is over", func() bool {
		return errors.Is(d.Renew(t.Context(), []*driver.Claim{c})[0].Err, driver.ErrGone)
	})
	p.Mend()
	a.until(c.Name, 0)
}

// go-zookeeper grants the lock to a waiter whose node is gone, and to the next one too.
func removedWhileWaiting(t *testing.T, s *servertest.Server) {
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	holder, waiter, third := claim("removed-waiter"), claim("removed-waiter"), claim("removed-waiter")
	enter(t, d, holder, true)
	enter(t, d, waiter, false)
	enter(t, d, third, false)
	a.remove(a.node(waiter))
	p, err := d.Enter(t.Context(), waiter) // once, without having waited
	if !errors.Is(err, driver.ErrGone) || p.Holds {
		t.Errorf("a waiter without a node = %+v, %v; want ErrGone", p, err)
	}
	enter(t, d, third, false)
	leave(t, d, holder)
	if _, err := turn(t.Context(), d, third); err != nil {
		t.Errorf("the third claim: %v", err)
	}
}

// client returns a client of the portable layer.
func client(t *testing.T, url string) (c *stile.Client) {
	t.Helper()
	err := reached(t, func() (err error) { c, err = stile.Open(t.Context(), url, nil); return err })
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func lock(t *testing.T, c *stile.Client, name string) *stile.Lease {
	t.Helper()
	l, err := c.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	return l
}

// lost waits until a lease is lost, and fails unless it is for this reason.
func lost(t *testing.T, l *stile.Lease, reasons ...stile.Reason) time.Time {
	t.Helper()
	<-l.Context().Done()
	at := time.Now()
	e, ok := errors.AsType[*stile.LostError](context.Cause(l.Context()))
	if !ok || !slices.Contains(reasons, e.Reason) {
		t.Errorf("the lease ended with %v; want it lost for %v", context.Cause(l.Context()), reasons)
	}
	return at
}

// longest is the longest session that the server gives. A client renews a lease of this length after a third of it, and
// gives up a connection that was silent for a third of the session.
const longest = time.Minute

func removedWhileHolding(t *testing.T, s *servertest.Server) {
	lane := awake.Lane(t)
	c, a := client(t, "zk://"+s.Addr+"?session="+longest.String()), newAdmin(t, s.Addr)
	lease, err := c.Mutex("removed-holder").With(stile.LockOptions{TTL: longest}).Lock(t.Context())
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	children := a.until("removed-holder", 1)
	// The watch on the node is set a moment after the lock was granted, and also sees an earlier removal.
	start := time.Now()
	a.remove("/stile/removed-holder/" + children[0])
	took := lost(t, lease, stile.ReasonRemoved).Sub(start)
	lane.Within(took, longest/6, "the loss of the lease by the watch, half as long before the renewal that would tell too,")
	again := lock(t, c, "removed-holder")
	if again.Token() <= lease.Token() {
		t.Errorf("the token is %d after %d; want it to rise", again.Token(), lease.Token())
	}
}

func sessionOverHolding(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s, "session=4s")
	d, other := open(t, url), open(t, "zk://"+s.Addr)
	var alerted atomic.Int64
	d.(driver.Alerter).Alert(func(...string) { alerted.Add(1) })
	c, next := claim("over-holder"), claim("over-holder")
	enter(t, d, c, true)
	enter(t, other, next, false)
	p.Cut()
	if _, err := turn(t.Context(), other, next); err != nil {
		t.Fatalf("the next claim: %v", err)
	}
	p.Mend()
	servertest.Until(t, "the session is known to be over", func() bool {
		return errors.Is(d.Renew(t.Context(), []*driver.Claim{c})[0].Err, driver.ErrGone)
	})
	if alerted.Load() == 0 {
		t.Errorf("nobody was told that the claim is in danger")
	}
	if _, err := d.Enter(t.Context(), c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("enter of the claim = %v; want ErrGone", err)
	}
	// A new session serves new claims: Vespa's claims blocked themselves, vespa-engine/vespa#3340.
	leave(t, other, next)
	enter(t, d, claim(c.Name), true)
}

func sessionOverWaiting(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s, "session=4s")
	d, other := open(t, url), open(t, "zk://"+s.Addr)
	holder, waiter, third := claim("over-waiter"), claim("over-waiter"), claim("over-waiter")
	enter(t, other, holder, true)
	enter(t, d, waiter, false)
	enter(t, other, third, false)
	waited := make(chan error, 1)
	go func() {
		place, err := turn(t.Context(), d, waiter)
		if place.Holds {
			err = errors.New("it holds")
		}
		waited <- err
	}()
	p.Cut()
	servertest.Until(t, "the waiter's node is gone", func() bool {
		place, err := other.Enter(t.Context(), third)
		return err == nil && place.Ahead == 1
	})
	leave(t, other, holder)
	p.Mend()
	if err := <-waited; !errors.Is(err, driver.ErrSession) {
		t.Errorf("the waiter = %v; want ErrSession", err)
	}
	enter(t, other, third, true)
	enter(t, d, claim("over-waiter"), false)
}

// kazoo waited for ever after the connection came back: python-zk/kazoo#170.
func shortCutWaiting(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s)
	d, other := open(t, url), open(t, "zk://"+s.Addr)
	holder, waiter := claim("cut-waiter"), claim("cut-waiter")
	enter(t, other, holder, true)
	ticket := enter(t, d, waiter, false).Ticket
	waited := make(chan error, 1)
	go func() {
		place, err := turn(t.Context(), d, waiter)
		if err == nil && place.Ticket != ticket {
			err = errors.New("it has another ticket")
		}
		waited <- err
	}()
	p.Cut()
	leave(t, other, holder)
	p.Mend()
	if err := <-waited; err != nil {
		t.Errorf("the waiter: %v", err)
	}
}

func shortCutHolding(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s)
	d := open(t, url)
	alerts := make(chan string, 100)
	d.(driver.Alerter).Alert(func(ids ...string) {
		for _, id := range ids {
			alerts <- id
		}
	})
	c := claim("cut-holder")
	enter(t, d, c, true)
	p.Drop()
	if id := <-alerts; id != c.ID {
		t.Errorf("claim %s was said to be in danger; want %s", id, c.ID)
	}
	servertest.Until(t, "the claim is renewed", func() bool { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err == nil })
	if p := enter(t, d, c, true); p.TTL <= 0 {
		t.Errorf("enter = %+v; want a lease", p)
	}
}

// The clock of the holder decides, not an event that cannot reach it.
func deadlineFirst(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s, "session=2s")
	l := lock(t, client(t, url), "deadline")
	p.Freeze(true, true)
	ends := l.Deadline()
	next := lock(t, client(t, "zk://"+s.Addr), "deadline")
	if early := time.Until(ends); early > 0 {
		t.Errorf("the next lease began %v before the deadline of the first", early)
	}
	lost(t, l, stile.ReasonExpired, stile.ReasonSessionOver)
	if next.Token() <= l.Token() {
		t.Errorf("the token is %d after %d; want it to rise", next.Token(), l.Token())
	}
	p.Mend()
}

// No call hangs: each ends with its context while the server does not answer.
func waitsEnd(t *testing.T, s *servertest.Server) {
	p, url := behind(t, s, "session="+longest.String())
	lane := awake.Lane(t)
	d := open(t, url)
	c, waiter := claim("ends"), claim("ends")
	enter(t, d, c, true)
	enter(t, d, waiter, false)
	p.Freeze(true, true)
	for _, call := range []struct {
		verb string
		do   func(context.Context) error
	}{
		{"enter", func(ctx context.Context) error { _, err := d.Enter(ctx, claim("ends-2")); return err }},
		{"await", func(ctx context.Context) error { _, err := d.Await(ctx, waiter); return err }},
		{"renew", func(ctx context.Context) error { return d.Renew(ctx, []*driver.Claim{c})[0].Err }},
		{"list", func(ctx context.Context) error { _, err := d.(driver.Lister).List(ctx, &driver.Query{}); return err }},
		{"watch", func(ctx context.Context) error { return d.(driver.Watcher).Watch(ctx, "ends", func() {}) }},
		{"break", func(ctx context.Context) error {
			_, err := d.(driver.Breaker).Break(ctx, &driver.BreakRequest{Name: "ends"})
			return err
		}},
		// After this one the driver takes the claim for gone.
		{"leave", func(ctx context.Context) error { return d.Leave(ctx, &driver.Release{Claim: c}) }},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		err := call.do(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s = %v; want it to end with its context", call.verb, err)
		}
		lane.Within(time.Since(start), longest/6,
			"the end of %s, which is not to wait until the connection is given up,", call.verb)
	}
	p.Mend()
}

func closeKeeps(t *testing.T, s *servertest.Server) {
	d, a := open(t, "zk://"+s.Addr+"?session=4s"), newAdmin(t, s.Addr)
	c := claim("kept")
	enter(t, d, c, true)
	d.Close()
	if got := a.children("/stile/kept"); len(got) != 1 || !strings.HasSuffix(a.node(c), got[0]) {
		t.Errorf("children after close = %v; want the claim's node", got)
	}
	a.until("kept", 0) // with the session
}

func closeWithout(t *testing.T, s *servertest.Server) {
	d, a := open(t, "zk://"+s.Addr+"?session=50s"), newAdmin(t, s.Addr)
	c := claim("ended")
	enter(t, d, c, true)
	leave(t, d, c)
	d.Close()
	if got := a.children("/stile/ended"); len(got) != 0 {
		t.Errorf("children after close = %v; want none", got)
	}
}
