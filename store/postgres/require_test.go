package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A client that requires claims to survive a restart loses its leases when the server comes back with fsync off. With
// synchronous_commit off it goes on, since its own transactions do not use that setting.
func TestRequiredAfterRestart(t *testing.T) {
	t.Parallel()
	for setting, fit := range map[string]bool{"fsync": false, "synchronous_commit": true} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := servertest.Postgres(t, "work_mem = 4MB")
			renewed := make(chan struct{}, 100)
			o := &stile.Options{
				Require: []driver.Trait{driver.TraitRestart}, LockOptions: stile.LockOptions{TTL: 20 * time.Second},
				Observer: func(e stile.Event) {
					if e.Kind == stile.EventRenewed {
						renewed <- struct{}{}
					}
				},
			}
			c, err := stile.Open(t.Context(), "postgres://postgres@"+s.Addr+"/postgres", o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			lease, err := c.Mutex("name").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			admin, err := pgx.Connect(t.Context(), "postgres://postgres@"+s.Addr+"/postgres")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Exec(t.Context(), "ALTER SYSTEM SET "+setting+" = off"); err != nil {
				t.Fatal(err)
			}
			if err := admin.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			servertest.KillPostgres(s) // at once, so that it is back long before the lease ends
			for len(renewed) > 0 {
				<-renewed
			}
			s.Restart()
			servertest.Until(t, "the lease ends, or is renewed again and again", func() bool {
				return lease.Context().Err() != nil || len(renewed) > 2
			})
			cause := context.Cause(lease.Context())
			lost, ok := errors.AsType[*stile.LostError](cause)
			switch {
			case fit && cause != nil:
				t.Errorf("the lease ended as %v; want it to go on", cause)
			case !fit && (!ok || lost.Reason != stile.ReasonUnfit || !strings.Contains(cause.Error(), "fsync on")):
				t.Errorf("the lease ended as %v; want the reason that the store is unfit, and what to set", cause)
			}
		})
	}
}
