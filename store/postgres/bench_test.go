package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// BenchmarkLock measures a lock and unlock of a free name, beside the least cost of rows and beside PostgreSQL's own locks.
// All sync their durable data to the disk.
func BenchmarkLock(b *testing.B) {
	s := servertest.Postgres(b, "fsync = on")
	d := open(b, fresh(s))
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://postgres@"+s.Addr+"/postgres")
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	must := func(_ any, err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(pool.Exec(ctx, "CREATE TABLE public.bare (name bytea PRIMARY KEY, last bigint);"+
		"CREATE TABLE public.queue (name bytea, ticket bigint, id bytea, PRIMARY KEY (name, ticket))", asText))
	lock := func(b *testing.B) {
		for range b.N {
			c := claim("name", rand.Text())
			must(d.Enter(ctx, c))
			must(nil, d.Leave(ctx, &driver.Release{Claim: c}))
		}
	}
	b.Run("driver", lock)
	b.Run("function", func(b *testing.B) { // as behind a pooler
		d.pollReason = "no notifications"
		defer func() { d.pollReason = "" }()
		lock(b)
	})
	b.Run("insert and delete", func(b *testing.B) {
		for range b.N {
			must(pool.Exec(ctx, "INSERT INTO public.bare VALUES ($1, 1)", []byte("name")))
			must(pool.Exec(ctx, "DELETE FROM public.bare WHERE name = $1", []byte("name")))
		}
	})
	// The other way with one round trip: statements that are sent without waiting for each other's answers, with the rule in
	// Go. It is the least part of the function's work.
	b.Run("pipelined batch", func(b *testing.B) {
		must(pool.Exec(ctx, "INSERT INTO public.bare VALUES ('name', 0) ON CONFLICT DO NOTHING"))
		for i := range b.N {
			for _, half := range [][]string{
				{
					"UPDATE public.bare SET last = last + 1 WHERE name = $1 OR $2 = ''",
					"INSERT INTO public.queue SELECT name, last, $2 FROM public.bare WHERE name = $1",
					"SELECT ticket FROM public.queue WHERE name = $1 OR $2 = '' ORDER BY ticket",
				},
				{
					"SELECT FROM public.bare WHERE name = $1 OR $2 = '' FOR UPDATE",
					"DELETE FROM public.queue WHERE name = $1 AND id = $2",
					"SELECT ticket FROM public.queue WHERE name = $1 OR $2 = '' ORDER BY ticket",
				},
			} {
				batch := &pgx.Batch{}
				batch.Queue("BEGIN")
				for _, text := range half {
					batch.Queue(text, []byte("name"), fmt.Append(nil, i))
				}
				batch.Queue("COMMIT")
				must(nil, pool.SendBatch(ctx, batch).Close())
			}
		}
	})
	b.Run("advisory", func(b *testing.B) {
		conn, err := pool.Acquire(ctx)
		must(nil, err)
		defer conn.Release()
		for range b.N {
			must(conn.Exec(ctx, "SELECT pg_advisory_lock($1)", 1))
			must(conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", 1))
		}
	})
	b.Run("round trip", func(b *testing.B) {
		for range b.N {
			must(pool.Exec(ctx, "SELECT 1"))
		}
	})
	// From the release by one client until another knows that it holds.
	b.Run("hand-over", func(b *testing.B) {
		other := open(b, "postgres://postgres@"+s.Addr+"/postgres?schema="+d.tables.schema)
		holder, next := d, other
		name := rand.Text()
		held := claim(name, "first")
		enter(b, holder, held)
		for range b.N {
			b.StopTimer()
			c := claim(name, rand.Text())
			enter(b, next, c)
			listens(b, next, c)
			b.StartTimer()
			leave(b, holder, held)
			await(b, next, c)
			holder, next, held = next, holder, c
		}
	})
}
