package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// open connects to the store at a URL. The connection is closed when the test ends.
func open(t testing.TB, url string) *Driver {
	t.Helper()
	d, err := tryOpen(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func tryOpen(t testing.TB, url string) (*Driver, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := driver.Open(ctx, url)
	if err != nil {
		if d != nil {
			t.Errorf("Open returns a driver beside %v", err)
		}
		return nil, err
	}
	t.Cleanup(func() { d.Close() })
	return d.(*Driver), nil
}

// claim returns an exclusive claim with a client of its own.
func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client-of-" + id, Weight: driver.All, Capacity: driver.All,
		TTL: 10 * time.Second, Wait: 10 * time.Second, Record: `{"owner":"someone"}`,
	}
}

// await enters a waiting claim repeatedly until it holds. awaiting is await in the background. If the claim does not hold in
// time, the channel gets a place that does not hold.
func awaiting(t testing.TB, d driver.Driver, c *driver.Claim) <-chan driver.Place {
	held := make(chan driver.Place, 1)
	go func() {
		defer close(held)
		held <- await(t, d, c)
	}()
	return held
}

func await(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	ctx := timely(t)
	for {
		p, err := d.Await(ctx, c)
		if err != nil {
			t.Fatalf("await %s: %v", c.ID, err)
		}
		if p.Holds {
			return p
		}
		if p = enter(t, d, c); p.Holds {
			return p
		}
	}
}

// listens waits until the server would send a message to a waiting claim.
func listens(t testing.TB, d *Driver, c *driver.Claim) {
	t.Helper()
	key := d.key(c.Name)
	servertest.Until(t, "the claim is expected", func() bool {
		if d.inboxes.Expect(d.channel(key, c), label(c.ID, key)) {
			enter(t, d, c) // for changes before the client listened
			return true
		}
		if _, err := d.Await(timely(t), c); err != nil {
			t.Fatal(err)
		}
		return false
	})
}

func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	flush := func() { s.Redis([]string{"SCRIPT", "FLUSH"}) }
	var cs []*driver.Claim
	for i := range 5 {
		flush()
		cs = append(cs, claim(fmt.Sprint("name-", i), fmt.Sprint("id-", i)))
		if p := enter(t, d, cs[i]); !p.Holds {
			t.Errorf("claim %d does not hold", i)
		}
	}
	flush()
	for i, r := range d.Renew(timely(t), cs) {
		if r.Err != nil || r.TTL <= 0 {
			t.Errorf("renewal %d: %v, %v", i, r.TTL, r.Err)
		}
	}
	flush()
	list, err := d.List(timely(t), &driver.Query{Prefix: "name-"})
	if err != nil || len(list) != 5 {
		t.Errorf("list has %d names, %v; want 5", len(list), err)
	}
	flush()
	if st, err := d.Break(timely(t), &driver.BreakRequest{Name: "name-0"}); err != nil || st.Ticket != cs[0].Ticket {
		t.Errorf("break: ticket %d, %v; want %d", st.Ticket, err, cs[0].Ticket)
	}
	flush()
	leave(t, d, cs[1])
}

func TestManyRenewals(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	var cs []*driver.Claim
	for i := range 2*conn.AtOnce + 3 {
		cs = append(cs, claim(fmt.Sprint("name-", i), fmt.Sprint("id-", i)))
		if i%3 > 0 {
			enter(t, d, cs[i])
		}
	}
	for i, r := range d.Renew(timely(t), cs) {
		if gone := errors.Is(r.Err, driver.ErrGone); gone != (i%3 == 0) || !gone && r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
}

// A key lives no longer than its last claim, so unused names leave nothing behind.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	for i := range 20 {
		c := claim(fmt.Sprint("name-", i), fmt.Sprint("id-", i))
		c.TTL, c.Wait, c.Delay = 2*time.Second, 2500*time.Millisecond, 50*time.Millisecond
		enter(t, d, c)
		if i%2 == 0 {
			c.ID += "-behind"
			c.Ticket = 0
			enter(t, d, c)
		}
		if i%4 == 0 {
			leave(t, d, c)
		}
	}
	servertest.Until(t, "the database is empty", func() bool { return s.Redis([]string{"DBSIZE"}) == int64(0) })
}

func TestLeavingLeavesNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	leave(t, d, b)
	leave(t, d, a)
	if got := s.Redis([]string{"DBSIZE"}); got != int64(0) {
		t.Errorf("%v keys are left", got)
	}
	if got := enter(t, d, claim("name", "c")).Ticket; got <= b.Ticket {
		t.Errorf("ticket %d after %d", got, b.Ticket)
	}
}

func TestTickets(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	now := time.Now().UnixMicro()
	c := claim("name", "a")
	enter(t, d, c)
	if diff := c.Ticket - now; diff < -int64(time.Minute/time.Microsecond) || diff > int64(time.Minute/time.Microsecond) {
		t.Errorf("ticket %d is not the time %d", c.Ticket, now)
	}
	if c.Ticket >= 1<<53 {
		t.Errorf("ticket %d does not fit 53 bits", c.Ticket)
	}
}

// A claim that was notified that it holds, and then dies, keeps others out for its lock-delay.
func TestLockDelayOfTheWoken(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	a, b, c := claim("name", "a"), claim("name", "b"), claim("name", "c")
	b.Wait, b.Delay, c.Try = 3*time.Second, time.Minute, true // it is there when it is notified
	enter(t, d, a)
	enter(t, d, b)
	leave(t, d, a)
	servertest.Until(t, "the lease of the woken has run out", func() bool {
		p, err := d.Enter(timely(t), c)
		if err != nil || p.Holds {
			t.Fatalf("a try during the lock-delay: %+v, %v", p, err)
		}
		return p.Blocker.Remaining < 0
	})
}

// A client expects no more messages for a claim that holds, left or was refused.
func TestNothingIsExpectedInVain(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	d.inboxes.Idle = time.Second
	a, b := claim("name", "a"), claim("name", "b")
	a.Client, b.Client = "one", "one"
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)
	enter(t, d, b)
	for _, c := range []*driver.Claim{claim("other", "c"), claim("name", "d"), claim("other", "e")} {
		c.Client = "one"
		if c.ID == "e" {
			c.Weight, c.Capacity = 1, 2
		}
		if _, err := d.Enter(timely(t), c); c.ID == "d" && err == nil {
			leave(t, d, c)
		}
	}
	for _, c := range []*driver.Claim{b, claim("other", "c")} { // while they hold, the client listens for a break
		c.Client = "one"
		leave(t, d, c)
	}
	servertest.Until(t, "the subscription ends, since nobody is expected", func() bool {
		list, _ := s.Redis([]string{"PUBSUB", "CHANNELS"}).([]any)
		return len(list) == 0
	})
}

// A queue whose last ticket is ahead of the clock, because the clock has run back, lives until the clock has passed the
// ticket.
func TestTicketsRiseWhenTheClockRanBack(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	a := claim("name", "a")
	enter(t, d, a)
	raw := []byte(s.Redis([]string{"GET", d.key("name")}).(string))
	ahead := a.Ticket + time.Hour.Microseconds()
	binary.BigEndian.PutUint64(raw[10:], math.Float64bits(float64(ahead)))
	s.Redis([]string{"SET", d.key("name"), string(raw)})
	leave(t, d, a)
	if left := s.Redis([]string{"PTTL", d.key("name")}).(int64); left < 59*60*1000 || left > 61*60*1000 {
		t.Errorf("the key stays for %d ms, want about an hour", left)
	}
	b := claim("name", "b")
	if enter(t, d, b); b.Ticket != ahead+1 {
		t.Errorf("ticket %d, want %d", b.Ticket, ahead+1)
	}
}
