package advisory

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// BenchmarkSession measures a lock and unlock of a free name in a session, beside the bare statements.
func BenchmarkSession(b *testing.B) {
	ctx := context.Background()
	b.Run("driver", func(b *testing.B) {
		d := client(b, at(home))
		for b.Loop() {
			c := claim("name", rand.Text())
			if _, err := d.Enter(ctx, c); err != nil {
				b.Fatal(err)
			}
			if err := d.Leave(ctx, &driver.Release{Claim: c}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("advisory", func(b *testing.B) {
		conn, err := pgx.Connect(ctx, at(home))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(ctx)
		for b.Loop() {
			for _, text := range []string{"SELECT pg_advisory_lock($1)", "SELECT pg_advisory_unlock($1)"} {
				if _, err := conn.Exec(ctx, text, 1); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkHandOver measures the time from the release by one client until another knows that it holds, beside two
// connections that use only pg_advisory_lock.
func BenchmarkHandOver(b *testing.B) {
	ours, bare := sessions(b), connections(b)
	var took [2][]time.Duration
	for range b.N {
		for i, pass := range []func() time.Duration{ours, bare} {
			took[i] = append(took[i], pass())
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	for name, at := range map[string]int{"p25": b.N / 4, "p50": b.N / 2} {
		b.ReportMetric(float64(took[0][at].Microseconds()), name+"-µs")
		b.ReportMetric(float64(took[1][at].Microseconds()), "bare-"+name+"-µs")
		b.ReportMetric(float64(took[0][at])/float64(took[1][at]), name+"-ratio")
	}
}

// settled waits until a statement waits for the lock in the server.
func settled(b *testing.B) {
	servertest.Until(b, "somebody waits", func() bool {
		return count(b, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
	})
}

// sessions returns a function that hands a lock from one client to another.
func sessions(b *testing.B) func() time.Duration {
	ctx := context.Background()
	holder, next := client(b, at(home)), client(b, at(home))
	name := rand.Text()
	held := claim(name, rand.Text())
	enter(b, holder, held, true)
	return func() time.Duration {
		c := claim(name, rand.Text())
		enter(b, next, c, false)
		got := make(chan time.Time, 1)
		go func() {
			if p, err := next.Await(ctx, c); err != nil || !p.Holds {
				b.Error(p, err)
			}
			got <- time.Now()
		}()
		settled(b)
		begin := time.Now()
		leave(b, holder, held)
		end := <-got
		holder, next, held = next, holder, c
		return end.Sub(begin)
	}
}

// connections returns a function that hands an advisory lock from one connection to another.
func connections(b *testing.B) func() time.Duration {
	ctx := context.Background()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, at(home))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close(ctx) })
		return conn
	}
	do := func(conn *pgx.Conn, text string) {
		if _, err := conn.Exec(ctx, text, 1); err != nil {
			b.Error(err)
		}
	}
	holder, next := connect(), connect()
	do(holder, "SELECT pg_advisory_lock($1)")
	return func() time.Duration {
		got := make(chan time.Time, 1)
		go func() {
			do(next, "SELECT pg_advisory_lock($1)")
			got <- time.Now()
		}()
		settled(b)
		begin := time.Now()
		do(holder, "SELECT pg_advisory_unlock($1)")
		end := <-got
		holder, next = next, holder
		return end.Sub(begin)
	}
}
