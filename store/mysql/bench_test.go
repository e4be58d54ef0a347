package mysql

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// BenchmarkEnterLeave measures a lock and unlock beside an insert and a delete, on a server that writes each commit to the
// disk.
func BenchmarkEnterLeave(b *testing.B) {
	s := servertest.MySQL(b, durable...)
	name := database(b, s)
	d, db := open(b, "mysql://root@"+s.Addr+"/"+name), raw(b, s, name)
	mustExec(b, db, "CREATE TABLE bare (name VARBINARY(255) PRIMARY KEY, id VARBINARY(64) NOT NULL, ends BIGINT NOT NULL) "+
		"ENGINE = InnoDB")
	conn, err := db.Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	var ours, bare []time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		n++
		c := claim("name", fmt.Sprint(n))
		enter(b, d, c)
		leave(b, d, c)
		ours = append(ours, time.Since(start))
		start = time.Now()
		for _, text := range []string{
			"INSERT INTO bare VALUES ('name', 'id', 1)",
			"DELETE FROM bare WHERE name = 'name' AND id = 'id'",
		} {
			if _, err := conn.ExecContext(b.Context(), text); err != nil {
				b.Fatal(err)
			}
		}
		bare = append(bare, time.Since(start))
	}
	b.ReportMetric(float64(median(ours).Microseconds()), "µs/lock")
	b.ReportMetric(float64(median(bare).Microseconds()), "µs/bare")
	b.ReportMetric(float64(median(ours))/float64(median(bare)), "ratio")
}

// BenchmarkHandOver measures how a lock goes to another client that polls least, since it has waited for long: by the short
// way and the long way in turn, beside a bare GET_LOCK.
func BenchmarkHandOver(b *testing.B) {
	for _, held := range []time.Duration{0, 20 * time.Millisecond, 1500 * time.Millisecond} {
		b.Run(fmt.Sprintf("held %v", held), func(b *testing.B) {
			url := fresh(b, server)
			from, to := open(b, url), open(b, url)
			db := raw(b, server, "")
			short := from.store.passes
			took := map[string][]time.Duration{}
			n := 0
			for b.Loop() {
				for way, text := range map[string]string{"short": short, "long": ""} {
					from.store.passes = text
					n++
					took[way] = append(took[way], handOver(b, from, to, fmt.Sprint(n), held))
				}
				took["bare"] = append(took["bare"], handOverBare(b, db, held))
			}
			for way, all := range took {
				b.ReportMetric(float64(median(all).Microseconds())/1000, "ms/"+way)
			}
		})
	}
}

func handOver(b *testing.B, from, to *Driver, id string, held time.Duration) time.Duration {
	b.Helper()
	a, c := claim("name", "a"+id), claim("name", "b"+id)
	a.Client, c.Client = "from", "to"
	enter(b, from, a)
	enter(b, to, c)
	told := make(chan time.Time, 1)
	go func() {
		if p, err := to.Await(b.Context(), c); err == nil && p.Holds {
			told <- time.Now()
		}
		close(told)
	}()
	if r := renew(b, from, a); r != nil { // it shows that somebody waits
		b.Fatal(r)
	}
	<-time.After(held)
	start := time.Now()
	leave(b, from, a)
	at, ok := <-told
	if !ok {
		b.Fatal("the waiter is not told")
	}
	leave(b, to, c)
	return at.Sub(start)
}

func handOverBare(b *testing.B, db *sql.DB, held time.Duration) time.Duration {
	b.Helper()
	got := func(c *sql.Conn) {
		if _, err := c.ExecContext(b.Context(), "DO GET_LOCK('bare', 3600)"); err != nil {
			b.Fatal(err)
		}
	}
	free := func(c *sql.Conn) {
		if _, err := c.ExecContext(b.Context(), "DO RELEASE_LOCK('bare')"); err != nil {
			b.Fatal(err)
		}
	}
	var conns [2]*sql.Conn
	for i := range conns {
		c, err := db.Conn(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	got(conns[0])
	told := make(chan time.Time, 1)
	go func() {
		got(conns[1])
		told <- time.Now()
	}()
	<-time.After(max(held, time.Millisecond))
	start := time.Now()
	free(conns[0])
	at := <-told
	free(conns[1])
	return at.Sub(start)
}

func BenchmarkRenew64(b *testing.B) {
	d := open(b, fresh(b, server))
	var all []*driver.Claim
	for i := range 64 {
		c := claim(fmt.Sprint("name ", i), "a")
		enter(b, d, c)
		all = append(all, c)
	}
	for b.Loop() {
		for _, r := range d.Renew(b.Context(), all) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
