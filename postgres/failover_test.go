package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A pooler that loses its server says so in its own words, with the code of a broken protocol. A claim that was applied
// before is then not known to be refused, and what comes while there is no server works when it is back.
func TestPoolerLosesServer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr)
			pooler := servertest.PgBouncer(t, &servertest.Server{Addr: proxy.Addr}, mode)
			s := schema()
			direct := open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s)
			url := "postgres://postgres@" + pooler.Addr + "/postgres?schema=" + s
			d := open(t, url)
			held, c := claim("held", "held"), claim("name", "a")
			enter(t, d, held)

			// The pooler may just then need another connection, or try the one that it has: then nothing comes through.
			entered := make(chan error, 1)
			applied := func() bool {
				soon, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				for soon.Err() == nil {
					if list, err := direct.List(soon, &driver.Query{Name: "name"}); err == nil && len(list) == 1 {
						return true
					}
				}
				return false
			}
			for try := 1; ; try++ {
				proxy.Freeze(false, true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { _, err := d.Enter(ctx, c); entered <- err }()
				if applied() {
					break
				}
				if try == 5 {
					t.Fatal("no claim comes to the store while replies are held back")
				}
				// The connections are cut, and the claim is not given up: PgBouncer 1.18 ends itself if a server is lost while
				// a statement on it is to be cancelled ("FATAL bad server state").
				proxy.Drop()
				t.Logf("attempt %d: %v", try, <-entered)
				if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil && !errors.Is(err, driver.ErrGone) {
					t.Logf("leave: %v", err)
				}
				c = claim("name", fmt.Sprint("a", try))
			}
			proxy.Cut()
			if err := <-entered; driver.OutcomeOf(err) != driver.OutcomeUnknown || !driver.IsUnreachable(err) {
				t.Errorf("enter of a claim that is in the store = %v (%v); "+
					"want an unknown outcome of a store that was not reached", err, driver.OutcomeOf(err))
			}
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
