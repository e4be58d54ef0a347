package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// alerted returns a channel of a driver's alerts.
func alerted(d *Driver) chan string {
	heard := make(chan string, 1000)
	d.Alert(func(ids ...string) {
		for _, id := range ids {
			heard <- id
		}
	})
	return heard
}

// hears fails unless a driver is soon alerted of a claim. The test has the lane.
func hears(t *testing.T, heard chan string, want string) {
	t.Helper()
	lane, start := awake.Lane(t), time.Now() // the test has had the lane since before its claims
	for {
		select {
		case id := <-heard:
			if id == want {
				lane.Within(time.Since(start), 5*time.Second, "the alert of %s", want)
				return
			}
		case <-awake.For(time.Minute):
			t.Fatalf("the client is not alerted of %s", want)
		}
	}
}

// earStands waits until a driver listens for its claims that hold, and has looked for earlier breaks.
func earStands(t *testing.T, d *Driver, heard chan string, c *driver.Claim) {
	t.Helper()
	servertest.Until(t, "the holder listens", func() bool { return d.inboxes.Stands(d.channel) })
	hears(t, heard, c.ID)
}

func breaks(t *testing.T, d *Driver, c *driver.Claim, record string) {
	t.Helper()
	s, err := d.Break(timely(t), &driver.BreakRequest{Name: c.Name, Ticket: c.Ticket, Record: record})
	if err != nil || s.Ticket != c.Ticket {
		t.Fatalf("break = %+v, %v; want the claim", s, err)
	}
}

// wasBroken fails unless an error says that a claim was broken, with this record.
func wasBroken(t *testing.T, what string, err error, record string) {
	t.Helper()
	if b, ok := errors.AsType[*driver.BrokenError](err); !ok || b.Record != record {
		t.Errorf("%s = %v; want that the claim was broken, with the record", what, err)
	}
}

// A holder learns of a break at once, alone on its name or not, and so does a waiter. The longest record of any bytes
// arrives unchanged, with the longest name, even if the database has another encoding.
func TestBreakIsHeard(t *testing.T) {
	t.Parallel()
	lane := awake.Lane(t)
	long := strings.Repeat("ä\x00'\\\xff\n ", driver.MaxRecord)[:driver.MaxRecord]
	for _, url := range []string{fresh(server), inLatin1(t)} {
		d, other := open(t, url), open(t, url)
		heard := alerted(d)
		name := strings.Repeat("ä", driver.MaxName/2) + "n"
		holder, waiter := claim(name, "holder"), claim(name, "waiter")
		enter(t, d, holder)
		earStands(t, d, heard, holder)
		breaks(t, other, holder, long)
		hears(t, heard, holder.ID)
		wasBroken(t, "renewal of what was alone", renew(t, d, holder), long)

		holder = claim(name, "next")
		enter(t, d, holder)
		enter(t, d, waiter)
		listens(t, d, waiter)
		woken := make(chan driver.Place, 1)
		go func() {
			p, _ := d.Await(timely(t), waiter)
			woken <- p
		}()
		start := time.Now()
		breaks(t, other, waiter, "why")
		select {
		case p := <-woken:
			if p.Holds {
				t.Errorf("a waiter that was broken holds: %+v", p)
			}
		case <-awake.For(time.Minute):
			t.Error("a waiter is not told that it was broken")
		}
		lane.Within(time.Since(start), 5*time.Second, "the waiter is told that it was broken")
		_, err := d.Enter(timely(t), waiter)
		wasBroken(t, "entering again", err, "why")
		if _, err := other.Break(timely(t), &driver.BreakRequest{Name: name}); err != nil { // the head
			t.Fatal(err)
		}
		hears(t, heard, holder.ID)
		wasBroken(t, "renewal", renew(t, d, holder), "")
	}
}

// A forged message ends nothing, and many of them renew a claim at most once a second. A real break right after one is
// noticed too. A message about a foreign claim is ignored.
func TestForgedBreak(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	awake.Lane(t)
	heard := alerted(d)
	c, last := claim("name", "held"), claim("last", "last")
	enter(t, d, c)
	earStands(t, d, heard, c)
	enter(t, d, last)
	pool, begun := connect(t, server), time.Now()
	tell := func(name string, ticket any, record string) {
		exec(t, pool, "SELECT pg_notify($1, $2)", d.tables.channel(), fmt.Sprint(brokenMark, name, " ", ticket, " ", record))
	}
	name := hex.EncodeToString([]byte(c.Name))
	for range 20 {
		tell("x", 1, "")
		tell(name, "x", "")
		tell(name, c.Ticket, "?")
		tell(name, c.Ticket+1, "")
		tell(name, c.Ticket, "")
	}
	tell(hex.EncodeToString([]byte(last.Name)), last.Ticket, "")
	hears(t, heard, last.ID)
	if err := renew(t, d, c); err != nil {
		t.Errorf("renewal after what was forged = %v; want nil", err)
	}
	for len(heard) > 0 {
		<-heard
	}
	breaks(t, d, c, "true")
	hears(t, heard, c.ID)
	if lasted := time.Since(begun); lasted < alarmEvery {
		t.Errorf("the claim was to be renewed twice in %v; want once a second", lasted)
	}
	wasBroken(t, "renewal", renew(t, d, c), "true")
}

// A client that locks and unlocks at once does not listen. A client that has held for long ends its subscription when it
// holds nothing, even if a claim was left to another process.
func TestHoldersListen(t *testing.T) {
	t.Parallel()
	name := schema()
	d := open(t, fresh(server, "application_name="+name))
	awake.Lane(t)
	d.inboxes.Idle = 500 * time.Millisecond
	heard := alerted(d)
	pool := connect(t, server)
	listeners := func() (n int) {
		servertest.Until(t, "the pool neither opens nor closes a connection", func() bool {
			before := d.link.Pool().Stat()
			scan(t, pool, &n, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name)
			after := d.link.Pool().Stat()
			n -= int(after.TotalConns())
			return n >= 0 && after.ConstructingConns() == 0 && after.NewConnsCount() == before.NewConnsCount()
		})
		return n
	}
	for range 100 {
		c := claim("brief", "brief")
		enter(t, d, c)
		leave(t, d, c)
	}
	if n := listeners(); n != 0 {
		t.Errorf("%d connections listen though nobody held for long; want 0", n)
	}
	a, b := claim("a", "a"), claim("b", "b")
	b.TTL, b.Wait = time.Second, time.Second // and nobody renews it
	enter(t, d, a)
	enter(t, d, b)
	earStands(t, d, heard, a)
	<-awake.For(2 * time.Second)
	if n := listeners(); n != 1 {
		t.Errorf("%d connections listen while claims hold; want 1", n)
	}
	leave(t, d, a)
	servertest.Until(t, "nobody listens", func() bool { return listeners() == 0 })
	d.breaks.mu.Lock()
	defer d.breaks.mu.Unlock()
	if n := len(d.breaks.claims); n != 0 {
		t.Errorf("%d claims are remembered when none is left; want 0", n)
	}
}

// If the server accepts no more connections, the driver tries again from time to time to connect for listening. Meanwhile it
// uses the connections of its pool.
func TestNoConnectionToListenOn(t *testing.T) {
	t.Parallel()
	pool, user := connect(t, server), "u_"+schema()
	exec(t, pool, "CREATE ROLE "+user+" LOGIN PASSWORD 'pw'; GRANT CREATE ON DATABASE postgres TO "+user, asText)
	d := open(t, "postgres://"+user+":pw@"+server.Addr+"/postgres?pool_max_conns=1&schema="+schema())
	heard := alerted(d)
	awake.Lane(t)
	c := claim("name", "held")
	exec(t, pool, "ALTER ROLE "+user+" CONNECTION LIMIT 0")
	enter(t, d, c)
	for range 3 {
		if err := d.inboxes.Open(timely(t), d.channel); err != nil || d.inboxes.Stands(d.channel) {
			t.Fatalf("listening = %v; want that no connection can be made", err)
		}
		if err := renew(t, d, c); err != nil {
			t.Fatalf("renewal = %v; want that the pool's connections are used", err)
		}
	}
	exec(t, pool, "ALTER ROLE "+user+" CONNECTION LIMIT -1")
	earStands(t, d, heard, c)
	breaks(t, d, c, "why")
	hears(t, heard, c.ID)
	wasBroken(t, "renewal", renew(t, d, c), "why")
}

// A client behind a pooler that shares connections does not learn of breaks, and its traits say so. Others learn of breaks
// by this client.
func TestBreakThroughPooler(t *testing.T) {
	t.Parallel()
	s := "/postgres?schema=" + schema()
	d, deaf := open(t, "postgres://postgres@"+server.Addr+s), open(t, "postgres://postgres@"+servertest.PgBouncer(t, server, "transaction").Addr+s)
	if !d.Traits().HearsBreak || deaf.Traits().HearsBreak {
		t.Errorf("the traits have HearsBreak %v, and %v through the pooler; want it, and not", d.Traits().HearsBreak, deaf.Traits().HearsBreak)
	}
	heard := alerted(d)
	awake.Lane(t)
	alerted(deaf)
	c, other := claim("name", "held"), claim("other", "deaf")
	enter(t, d, c)
	earStands(t, d, heard, c)
	breaks(t, deaf, c, "why")
	hears(t, heard, c.ID)
	wasBroken(t, "renewal", renew(t, d, c), "why")
	enter(t, deaf, other)
	breaks(t, d, other, "why")
	if err := renew(t, deaf, other); !errors.Is(err, driver.ErrGone) || len(deaf.breaks.claims) > 0 {
		t.Errorf("renewal of who hears nothing = %v, and it remembers %d claims; want ErrGone, and none", err, len(deaf.breaks.claims))
	}
}

// A program whose lock is broken learns at once by whom and why, long before its next renewal.
func TestHolderLearnsWhy(t *testing.T) {
	t.Parallel()
	url := fresh(server)
	listens := make(chan struct{}, 100)
	holds, err := stile.Open(timely(t), url, &stile.Options{
		LockOptions: stile.LockOptions{TTL: time.Hour},
		Observer: func(e stile.Event) {
			if e.Kind == stile.EventRenewed { // one of them is because its driver begins to listen
				listens <- struct{}{}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holds.Close() })
	breaks, err := stile.Open(timely(t), url, &stile.Options{LockOptions: stile.LockOptions{Owner: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { breaks.Close() })
	lease, err := holds.Mutex("name").Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-listens:
	case <-timely(t).Done():
		t.Fatal("the holder does not listen")
	}
	if _, err := breaks.Break(timely(t), "name", stile.BreakOptions{Ticket: lease.Ticket(), Reason: "the host burns: 火"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Context().Done():
	case <-timely(t).Done():
		t.Fatal("the lease goes on")
	}
	lost, ok := errors.AsType[*stile.LostError](context.Cause(lease.Context()))
	if !ok || lost.Reason != stile.ReasonBroken || lost.By.Owner != "ann" || lost.By.Reason != "the host burns: 火" {
		t.Errorf("the lease ended as %+v; want that ann broke it, and why", context.Cause(lease.Context()))
	}
}
