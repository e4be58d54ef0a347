package mysql

import (
	"crypto/rand"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/store/sqldb"
)

// alerted returns a channel of a driver's alerts.
func alerted(d *Driver) chan string {
	heard := make(chan string, 100)
	d.Alert(func(ids ...string) {
		for _, id := range ids {
			heard <- id
		}
	})
	return heard
}

// breaks lets a client break a claim and close at once.
func breaks(t *testing.T, url string, c *driver.Claim) {
	t.Helper()
	d := open(t, url)
	defer d.Close()
	if _, err := d.Break(timely(t), &driver.BreakRequest{Name: c.Name, Ticket: c.Ticket}); err != nil {
		t.Fatal(err)
	}
}

// A lone holder, a holder with others behind it, and a former waiter learn of a break by a client that closes at once.
func TestBreakIsHeard(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	lane := awake.Lane(t)
	d := open(t, url)
	heard, client := alerted(d), rand.Text()
	lone, first, next, spared := claim("lone", "lone"), claim("queue", "first"), claim("queue", "next"), claim("spared", "spared")
	for _, c := range []*driver.Claim{lone, first, next, spared} {
		c.Client = client
		enter(t, d, c)
	}
	until(t, "to listen", d.store.wakeups.heard)
	sleeps(t, client)
	for _, c := range []*driver.Claim{lone, first, next} {
		start := time.Now()
		breaks(t, url, c)
		if c == first {
			if p, err := d.Await(timely(t), next); err != nil || !p.Holds {
				t.Fatalf("Await = %+v, %v; want to hold", p, err)
			}
		}
		select {
		case id := <-heard:
			if id != c.ID {
				t.Errorf("alerted of %s; want %s", id, c.ID)
			}
		case <-awake.For(time.Minute):
			t.Fatalf("nobody is alerted of %s", c.ID)
		}
		lane.Within(time.Since(start), 5*time.Second, "the alert of %s", c.ID)
	}
	if a := d.Renew(timely(t), []*driver.Claim{spared})[0]; a.Err != nil || len(heard) > 0 {
		t.Errorf("renewal of the claim that was spared = %v, and %d more alerts; want neither", a.Err, len(heard))
	}
}

// A wakeup between two sleeps is lost, and the client notices the break when the next sleep has begun.
func TestBreakBetweenSleeps(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	d := open(t, url)
	c := claim("name", rand.Text())
	enter(t, d, c)
	waiting := []sqldb.Waiting{{Name: c.Name, ID: c.ID, Ticket: c.Ticket}}
	slept, gone := 0, 0
	_ = d.store.listen(timely(t), c.Client, func() bool {
		if gone > 0 {
			return false
		}
		if slept++; slept == 2 { // the client's own wakeup ended the first sleep
			breaks(t, url, c)
		}
		return true
	}, func() {}, func() {
		ids, err := d.store.Gone(timely(t), waiting)
		if err != nil {
			t.Error(err)
		}
		if gone = len(ids); gone > 0 {
			_ = d.store.wake(timely(t), c.Client)
		}
	})
	if slept != 2 || gone != 1 {
		t.Errorf("slept %d times, and %d claims are gone; want 2 and 1", slept, gone)
	}
}

// Gone distinguishes present claims from missing ones, in the row of the name and in rows of their own.
func TestGone(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server))
	lone, first, next := claim("lone", "lone"), claim("queue", "first"), claim("queue", "next")
	var all []sqldb.Waiting
	for _, c := range []*driver.Claim{lone, first, next} {
		enter(t, d, c)
		all = append(all, sqldb.Waiting{Name: c.Name, ID: c.ID, Ticket: c.Ticket})
	}
	all = append(all, sqldb.Waiting{Name: "lone", ID: "other", Ticket: lone.Ticket}, sqldb.Waiting{Name: "none", ID: "none", Ticket: 1})
	for range 2 * lookBatch {
		all = append(all, sqldb.Waiting{Name: rand.Text(), ID: rand.Text(), Ticket: 1})
	}
	for _, leaves := range []*driver.Claim{nil, lone, first, next} {
		if leaves != nil {
			leave(t, d, leaves)
			i := slices.IndexFunc(all, func(w sqldb.Waiting) bool { return w.ID == leaves.ID })
			all = append(all, all[i])
			all = slices.Delete(all, i, i+1)
		}
		stand := slices.IndexFunc(all, func(w sqldb.Waiting) bool { return w.ID == "other" })
		ids, err := d.store.Gone(timely(t), all)
		if err != nil || len(ids) != len(all)-stand || ids[0] != "other" {
			t.Fatalf("%d of %d are gone, %v; want all but the first %d", len(ids), len(all), err, stand)
		}
	}
}

// HearsBreak is promised if the pool has a connection to spare and sends several statements at once.
func TestHearsBreak(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	single, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+database(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { single.Close() })
	apart, err := New(timely(t), single, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { apart.Close() })
	for d, want := range map[*Driver]bool{open(t, url): true, open(t, url+"&pool_max_conns=4"): true, open(t, url+"&pool_max_conns=3"): false, apart: false} {
		if got := d.Traits().HearsBreak; got != want {
			t.Errorf("HearsBreak = %v; want %v", got, want)
		}
	}
}
