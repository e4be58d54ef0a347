package mysql

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// tries returns a claim with Try.
func tries(name, id string) *driver.Claim {
	c := claim(name, id)
	c.Try = true
	return c
}

// The short way of a try has the same answer as the long way, and changes nothing.
func TestTryShortWay(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server))
	fill := d.store.place.fill
	queue := func(name string, claims []string) {
		t.Helper()
		mustExec(t, d.store.db, fill(fmt.Sprintf("INSERT INTO `{prefix}name` (`hash`, `name`, `last`, `head`) VALUES (%v, '%s', 9e15, 1)",
			keyOf(name), name)))
		for i, c := range claims {
			mustExec(t, d.store.db, fill(fmt.Sprintf("INSERT INTO `{prefix}claim` (`hash`, `ticket`, `client`, `owner`, `record`, `since`, `delay`, "+
				"`id`, `weight`, `capacity`, `ends`, `told`, `departed`) VALUES (%v, %d, '', '', '', 1, 0, %s)", keyOf(name), i+1, c)))
		}
	}
	// said is an answer without its times.
	said := func(p driver.Place, err error) string {
		return fmt.Sprintf("holds %v ahead %d behind %d of %d: %v", p.Holds, p.Ahead, p.Blocker.Ticket, p.Blocker.Weight, err)
	}
	whole, reads, other := tries("", "try"), tries("", "try"), tries("", "try")
	reads.Weight, other.Weight, other.Capacity = 1, 1, 1
	own := tries("", "own") // it is in the queue already, by an earlier request
	i, decided, kept := 0, 0, 0
	for _, first := range []string{ownWhole, ownShared, ownRunOut, ownWaits, otherWhole, permit} {
		for _, second := range []string{nobody, waits, waitsRead, told, departed, runOut} {
			claims := slices.DeleteFunc([]string{first, second}, func(c string) bool { return c == nobody })
			for _, c := range []*driver.Claim{whole, reads, other, own} {
				i++
				short, long := *c, *c
				short.Name, long.Name = fmt.Sprint("short ", i), fmt.Sprint("long ", i)
				queue(short.Name, claims)
				queue(long.Name, claims)
				before := queueIn(t, d, short.Name)
				got, err := d.store.try(timely(t), &short)
				if err != nil {
					t.Fatal(err)
				}
				p, err := d.Driver.Enter(timely(t), &long)
				if after := queueIn(t, d, short.Name); !slices.Equal(after, before) {
					t.Errorf("%q, %s: the short way made %v of %v", claims, c.ID, after, before)
				}
				changed := !slices.Equal(queueIn(t, d, long.Name), before)
				if got.decided == changed {
					t.Errorf("%q, %s of %d: decided %v; the long way changed the queue: %v", claims, c.ID, c.Weight, got.decided, changed)
				}
				if got, want := said(got.place, got.err), said(p, err); !changed && got != want {
					t.Errorf("%q, %s of %d: the short way says %q, and the long way %q", claims, c.ID, c.Weight, got, want)
				}
				if changed {
					kept++
				} else {
					decided++
				}
			}
		}
	}
	if decided == 0 || kept == 0 {
		t.Errorf("%d tries were decided by the short way, and %d were not; want some of both", decided, kept)
	}
}

// queueIn returns the rows of a name.
func queueIn(t *testing.T, d *Driver, name string) (found []string) {
	t.Helper()
	rows, err := d.store.db.QueryContext(timely(t), d.store.place.fill("SELECT CONCAT_WS(' ', n.`last`, n.`ends`, n.`id`, c.`ticket`, c.`id`, c.`ends`, c.`told`, "+
		"c.`departed`) FROM `{prefix}name` n LEFT JOIN `{prefix}claim` c ON c.`hash` = n.`hash` WHERE n.`name` = '"+name+"' ORDER BY c.`ticket`"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		found = append(found, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// A try of a name that another client holds is one round trip, and so is the next try that finds the name free.
func TestTryOneRoundTrip(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	proxy := servertest.NewProxy(t, server.Addr)
	d, holder := open(t, "mysql://root@"+proxy.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
	a := claim("name", "a")
	enter(t, holder, a)
	least := 9
	for i := range 6 { // the first finds a holder; the driver's own requests are rarer
		asked := proxy.Asked()
		p, err := d.Enter(timely(t), tries("name", fmt.Sprint("try ", i)))
		if err != nil || p.Ticket != 0 || p.Blocker.Ticket != a.Ticket {
			t.Fatalf("try = %+v, %v; want to be refused because of ticket %d", p, err, a.Ticket)
		}
		least = min(least, proxy.Asked()-asked)
	}
	if least != 1 {
		t.Errorf("a try took %d round trips; want 1", least)
	}
	leave(t, holder, a)
	least = 9
	for i := range 3 {
		d.store.contended.entering("name").Store(true) // as after a refused try
		c := tries("name", fmt.Sprint("again ", i))
		asked := proxy.Asked()
		p, err := d.Enter(timely(t), c)
		least = min(least, proxy.Asked()-asked)
		if err != nil || !p.Holds || p.Ticket <= a.Ticket || p.TTL != c.TTL {
			t.Fatalf("try = %+v, %v; want to hold by a ticket after %d", p, err, a.Ticket)
		}
		list, err := holder.List(timely(t), &driver.Query{Name: "name"})
		if err != nil || len(list) != 1 || len(list[0].Claims) != 1 || list[0].Claims[0].Ticket != p.Ticket {
			t.Errorf("list = %+v, %v; want one claim with ticket %d", list, err, p.Ticket)
		}
		leave(t, d, c)
	}
	if least != 1 {
		t.Errorf("a try that has the lock took %d round trips; want 1", least)
	}
}

// The answer to a try is lost. The same try again finds the claim, if it entered.
func TestTryAnswerLost(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	proxy := servertest.NewProxy(t, server.Addr)
	d, direct := open(t, "mysql://root@"+proxy.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
	first := claim("name", "first")
	enter(t, d, first)
	leave(t, d, first)
	d.store.contended.entering("name").Store(true)
	proxy.Freeze(false, true)
	entered := make(chan error, 1)
	go func() {
		_, err := d.Enter(context.WithoutCancel(t.Context()), tries("name", "a"))
		entered <- err
	}()
	servertest.Until(t, "the claim is there", func() bool { return count(t, direct, lone) == 1 })
	proxy.Cut()
	marks(t, <-entered, false, true)
	proxy.Mend()
	p, err := d.Enter(timely(t), tries("name", "a"))
	if err != nil || !p.Holds || p.Ticket <= first.Ticket {
		t.Errorf("trying again = %+v, %v; want to hold", p, err)
	}
	if n := count(t, direct, lone) + count(t, direct, queued); n != 1 {
		t.Errorf("%d claims are there; want one", n)
	}
}

// BenchmarkTry measures a try of a name that another client holds, by the short way and by the long way.
func BenchmarkTry(b *testing.B) {
	url := fresh(b, server)
	holder, d := open(b, url), open(b, url)
	enter(b, holder, claim("name", "a"))
	var short, long []time.Duration
	n := 0
	for b.Loop() {
		n++
		c := tries("name", fmt.Sprint(n))
		start := time.Now()
		if t, err := d.store.try(b.Context(), c); err != nil || !t.decided {
			b.Fatal(t, err)
		}
		short = append(short, time.Since(start))
		start = time.Now()
		if _, err := d.store.enterLone(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		if _, err := d.Driver.Enter(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		long = append(long, time.Since(start))
	}
	b.ReportMetric(float64(median(short).Microseconds()), "µs/short")
	b.ReportMetric(float64(median(long).Microseconds()), "µs/long")
	b.ReportMetric(float64(median(short))/float64(median(long)), "ratio")
}
