package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A pooler that has lost its server reports this in its own words, with the code of a broken protocol. Requests meanwhile
// succeed when the server is back.
func TestPoolerLosesServer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr)
			pooler := servertest.PgBouncer(t, &servertest.Server{Addr: proxy.Addr}, mode)
			s := schema()
			url := "postgres://postgres@" + pooler.Addr + "/postgres?schema=" + s
			d := open(t, url)
			held := claim("held", "held")
			enter(t, d, held)

			proxy.Cut()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // longer than the driver's own patience
			defer cancel()
			for range 2 {
				if err := d.Renew(ctx, []*driver.Claim{held})[0].Err; !driver.IsUnreachable(err) {
					t.Errorf("renewal without a server = %v; want that the store was not reached", err)
				}
			}
			if other, err := driver.Open(ctx, url); !driver.IsUnreachable(err) {
				t.Errorf("open without a server = %v, %v; want that the store was not reached", other, err)
			}
			proxy.Mend()
			servertest.Until(t, "the holder is renewed", func() bool { return renew(t, d, held) == nil })
		})
	}
}
