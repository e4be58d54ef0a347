package mysql

import (
	"context"
	"crypto/rand"
	sqldriver "database/sql/driver"
	"github.com/stilelock/stile/internal/awake"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A claim is renewed while its end is looked at, which takes long since its connection is busy. What the renewal has promised
// is not freed.
func TestSessionRenewedWhileItEnds(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	for range 10 {
		if renewedWhileItEnds(t, d) {
			return
		}
	}
	t.Error("the machine stood still for a lease in each attempt")
}

// renewedWhileItEnds is false if the machine stood still, so that the lease was over before its renewal.
func renewedWhileItEnds(t *testing.T, d *session) bool {
	t.Helper()
	awake.Lane(t) // or the end would come before it can be looked at
	a := claim(rand.Text(), rand.Text())
	a.TTL = time.Second
	mustEnter(t, d, a, true)
	own, err := d.claims.find(a.ID)
	if err != nil || renew(t, d, a) != nil {
		return false
	}
	_, conn := d.claims.of(own)
	ends := d.claims.until(own)
	looked := false
	servertest.Until(t, "the claim's end is looked at while its connection is busy", func() bool {
		conn.statement.Lock() // as another claim's statement does
		select {
		case own.kick <- struct{}{}:
		default:
		}
		for start := time.Now(); !looked && time.Since(start) < 50*time.Millisecond; {
			looked = len(own.kick) == 0
		}
		if !looked {
			conn.statement.Unlock()
		}
		return looked || time.Now().After(ends)
	})
	if !looked {
		return false
	}
	<-time.NewTimer(20 * time.Millisecond).C // until it waits for the connection; if that is too short, the test shows nothing
	long := *a
	long.TTL = time.Minute
	_, renewed, _ := d.claims.stay(own, &long, time.Now(), d.timeout, true) // what a renewal does when it is answered
	servertest.Until(t, "the first lease is over", func() bool { return time.Now().After(ends) })
	conn.statement.Unlock()
	if !renewed {
		return false
	}
	for start := time.Now(); time.Since(start) < 200*time.Millisecond; { // in turn with whatever frees the lock
		if held, err := d.beat(own); !held || err != nil {
			t.Fatalf("the lock is freed: %v, %v; want that the renewed claim has it", held, err)
		}
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: a}); err != nil {
		t.Errorf("leave = %v", err)
	}
	return true
}

// A claim that waits enters again when nobody has its lock, and what is to wait for that in the server is still under way. That
// may be on the only connection that there is.
func TestSessionEntersBeforeItWaits(t *testing.T) {
	t.Parallel()
	for _, only := range []bool{false, true} {
		d := openSessionAt(t, sessionAt(server.Addr))
		if !only {
			mustEnter(t, d, claim(rand.Text(), rand.Text()), true)
		}
		a := claim(rand.Text(), rand.Text())
		own := addWaiter(t, d, a)
		conn, err := d.takeAlone(timely(t), own)
		if err != nil || conn == nil {
			t.Fatalf("takes connection %v, %v", conn, err)
		}
		d.claims.waitsOn(own, conn)
		before, entered := time.Now(), make(chan driver.Place, 1)
		go func() {
			p, err := d.Enter(timely(t), a)
			if err != nil {
				t.Error(err)
			}
			entered <- p
		}()
		servertest.Until(t, "the server is asked", func() bool { return len(entered) > 0 || spoke(d, connOpen).After(before) })
		d.life.Go(func() { d.waitOn(own, conn) })
		if p := <-entered; !p.Holds {
			t.Errorf("enter = %+v; want that it holds, since nobody else has the name (its connection is the only one: %v)", p, only)
		}
	}
}

// addWaiter adds a claim that waits, and has nothing in the server.
func addWaiter(t testing.TB, d *session, c *driver.Claim) *sessionClaim {
	t.Helper()
	own, _, err := d.claims.add(c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	close(own.answered)
	return own
}

// spoke returns when the server was last asked on a connection in some state.
func spoke(d *session, state connState) (last time.Time) {
	d.mu.Lock()
	var conns []*sessionConn
	for _, c := range d.conns {
		if c.state == state {
			conns = append(conns, c)
		}
	}
	d.mu.Unlock()
	for _, c := range conns {
		c.statement.Lock()
		if c.spoke.After(last) {
			last = c.spoke
		}
		c.statement.Unlock()
	}
	return last
}

// A claim that waits has its lock in the server already, and does not know that yet. Its client does not try to get the lock on
// another connection, since that would say that somebody has the lock.
func TestSessionWaitsOrTries(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	mustEnter(t, d, claim(rand.Text(), rand.Text()), true) // so that there is a connection to try on
	a := claim(rand.Text(), rand.Text())
	own := addWaiter(t, d, a)
	conn, err := d.takeAlone(timely(t), own)
	if err != nil || conn == nil || !d.begins(own, conn) {
		t.Fatalf("takes connection %v, %v, and begins to wait", conn, err)
	}
	sent := time.Now()
	if got, err := conn.ask(timely(t), getLock(own, 0)); err != nil || got[0] != 1 {
		t.Fatalf("GET_LOCK = %v, %v; want 1", got, err)
	}
	if d.tryAgain(own) || spoke(d, connOpen).After(sent) {
		t.Error("a lock was tried on one connection while the claim waits for it on another one")
	}
	entered := make(chan driver.Place, 1)
	go func() {
		p, err := d.Enter(timely(t), a)
		if err != nil {
			t.Error(err)
		}
		entered <- p
	}()
	servertest.Until(t, "the server is asked who has the lock", func() bool { return len(entered) > 0 || spoke(d, connOpen).After(sent) })
	if !d.hold(own, conn, time.Now()) {
		t.Error("the claim does not hold; its connection has the lock")
	}
	if p := <-entered; !p.Holds {
		t.Errorf("enter = %+v; want that it holds, since its connection has the lock", p)
	}
	leave(t, d, a)
}

// A claim gets its lock when it enters again, while a connection is made for it to wait on. That connection has none of it.
func TestSessionHoldsBeforeItWaits(t *testing.T) {
	t.Parallel()
	d, other := openSessionAt(t, sessionAt(server.Addr)), openSessionAt(t, sessionAt(server.Addr))
	mustEnter(t, d, claim(rand.Text(), rand.Text()), true) // so that its connection is none to wait on
	gate := &gated{Connector: d.connector, asked: make(chan struct{}, 1), open: make(chan struct{})}
	d.connector = gate
	a, b := claim(rand.Text(), rand.Text()), claim("", rand.Text())
	b.Name = a.Name
	mustEnter(t, other, a, true)
	mustEnter(t, d, b, false)
	<-gate.asked
	leave(t, other, a)
	mustEnter(t, d, b, true)
	close(gate.open)
	servertest.Until(t, "nobody waits on the connection that was made", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		waits := func(c *sessionConn) bool { return c.state == connWaiting }
		return d.making == 0 && !slices.ContainsFunc(d.conns, waits)
	})
	if err := renew(t, d, b); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	leave(t, d, b)
}

// All connections of a client are in the making, or wait. A claim that tries awaits one, and is not told that another has its lock.
func TestSessionTriesWithoutAConnection(t *testing.T) {
	t.Parallel()
	other, d := openSessionAt(t, sessionAt(server.Addr)), openSessionAt(t, sessionAt(server.Addr, "pool_max_conns=2"))
	held, waiter := claim(rand.Text(), rand.Text()), claim("", rand.Text())
	waiter.Name = held.Name
	mustEnter(t, other, held, true)
	mustEnter(t, d, waiter, false)
	servertest.Until(t, "a connection waits", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return slices.ContainsFunc(d.conns, func(c *sessionConn) bool { return c.state == connWaiting })
	})
	gate := &gated{Connector: d.connector, asked: make(chan struct{}, 1), open: make(chan struct{})}
	d.connector = gate
	answers := make(chan driver.Place, 2)
	for range 2 {
		c := claim(rand.Text(), rand.Text())
		c.Try = true
		go func() {
			p, err := d.Enter(timely(t), c)
			if err != nil {
				t.Errorf("enter: %v", err)
			}
			answers <- p
		}()
		servertest.Until(t, "the claim is known, or answered", func() bool {
			_, err := d.claims.find(c.ID)
			return err == nil || len(answers) > 0
		})
	}
	close(gate.open)
	for range 2 {
		if p := <-answers; !p.Holds {
			t.Errorf("enter = %+v; want that it holds, since nobody else wants the lock", p)
		}
	}
}

// gated makes connections once it is open.
type gated struct {
	sqldriver.Connector
	asked, open chan struct{}
}

func (g *gated) Connect(ctx context.Context) (sqldriver.Conn, error) {
	select {
	case g.asked <- struct{}{}:
	default:
	}
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.Connector.Connect(ctx)
}

// A claim gives up in the moment in which its wait ends. Its connection, which has another's lock by then, is not ended.
func TestSessionGivesUpWhatItWaitsOn(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	warm, a := claim(rand.Text(), rand.Text()), claim(rand.Text(), rand.Text())
	mustEnter(t, d, warm, true) // so that a claim that waits has a connection of its own
	own := addWaiter(t, d, a)
	for _, waits := range []bool{false, true} {
		conn, err := d.takeAlone(timely(t), own)
		if err != nil || conn == nil {
			t.Fatalf("takes connection %v, %v", conn, err)
		}
		if !waits {
			d.free(conn, own)
		}
		if got := d.abandon(conn, own); got != waits || d.isCondemned(conn) != waits && !d.isGone(conn) {
			t.Errorf("a connection on which the claim waits: %v; it is abandoned: %v", waits, got)
		}
	}
}
