package mysql

import (
	"crypto/rand"
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

// A claim that waits enters again when nobody has its lock, and what is to wait for that in the server is still under way.
func TestSessionEntersBeforeItWaits(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	warm, a := claim(rand.Text(), rand.Text()), claim(rand.Text(), rand.Text())
	mustEnter(t, d, warm, true) // so that there is a connection to ask on
	own, _, err := d.claims.add(a, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	close(own.answered)
	conn, err := d.takeAlone(timely(t), own)
	if err != nil || conn == nil {
		t.Fatalf("takes connection %v, %v", conn, err)
	}
	d.claims.waitsOn(own, conn)
	asks := d.least()
	spoke := func() time.Time {
		asks.statement.Lock()
		defer asks.statement.Unlock()
		return asks.spoke
	}
	before, entered := spoke(), make(chan driver.Place, 1)
	go func() {
		p, err := d.Enter(timely(t), a)
		if err != nil {
			t.Error(err)
		}
		entered <- p
	}()
	servertest.Until(t, "the server is asked", func() bool { return spoke().After(before) || len(entered) > 0 })
	d.life.Go(func() { d.waitOn(own, conn) })
	if p := <-entered; !p.Holds {
		t.Errorf("enter = %+v; want that it holds, since nobody else has the name", p)
	}
}

// A claim gives up in the moment in which its wait ends. Its connection, which has another's lock by then, is not ended.
func TestSessionGivesUpWhatItWaitsOn(t *testing.T) {
	t.Parallel()
	d := openSessionAt(t, sessionAt(server.Addr))
	warm, a := claim(rand.Text(), rand.Text()), claim(rand.Text(), rand.Text())
	mustEnter(t, d, warm, true) // so that a claim that waits has a connection of its own
	own, _, err := d.claims.add(a, time.Now())
	if err != nil {
		t.Fatal(err)
	}
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
