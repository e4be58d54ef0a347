package advisory

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
)

// What a lock and unlock of a free name costs in a session, beside the statements alone.
func BenchmarkSession(b *testing.B) {
	ctx := context.Background()
	b.Run("driver", func(b *testing.B) {
		d := open(b, at(server))
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
		conn, err := pgx.Connect(ctx, at(server))
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
	// From the release by one client to the moment when another knows that it holds.
	b.Run("hand-over", func(b *testing.B) {
		holder, next := open(b, at(server)), open(b, at(server))
		name := rand.Text()
		held := claim(name, rand.Text())
		enter(b, holder, held, true)
		for range b.N {
			b.StopTimer()
			c := claim(name, rand.Text())
			enter(b, next, c, false)
			b.StartTimer()
			leave(b, holder, held)
			if p, err := next.Await(ctx, c); err != nil || !p.Holds {
				b.Fatal(p, err)
			}
			holder, next, held = next, holder, c
		}
	})
}
