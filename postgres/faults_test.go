package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
				cancel()
				t.Logf("attempt %d: %v", try, <-entered)
				proxy.Mend()
				if err := d.Leave(timely(t), &driver.Departure{Claim: c}); err != nil && !errors.Is(err, driver.ErrGone) {
					t.Logf("leave: %v", err)
				}
				c = claim("name", fmt.Sprint("a", try))
			}
			proxy.Cut()
			if err := <-entered; driver.OutcomeOf(err) != driver.OutcomeUnknown || !driver.IsUnreachable(err) {
				t.Errorf("enter of a claim that is in the store = %v (%v); want an unknown outcome of a store that was not reached", err, driver.OutcomeOf(err))
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

// An address leads to a standby for a while, as a virtual IP can in a failover. Nothing is renewed there; when the address
// leads to the primary again, renewals do too, although the connections to the standby are as good as ever.
func TestAddressMovesToStandbyAndBack(t *testing.T) {
	t.Parallel()
	primary := servertest.Postgres(t)
	standby := servertest.PostgresStandby(t, primary)
	address := servertest.NewProxy(t, primary.Addr)
	d := open(t, "postgres://postgres@"+address.Addr+"/postgres")
	held := claim("held", "held")
	enter(t, d, held)
	admin := connect(t, standby)
	servertest.Until(t, "the standby is in step", func() bool {
		var there bool
		err := admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM stile.stile_claim)").Scan(&there)
		return err == nil && there
	})
	address.Retarget(standby.Addr)
	address.Drop()
	var err error
	servertest.Until(t, "the standby answers", func() bool {
		err = renew(t, d, held)
		return driver.OutcomeOf(err) == driver.OutcomeRefused
	})
	says(t, err, "read-only here", "25006")
	marks(t, err, true, true)
	address.Retarget(primary.Addr)
	for try := 1; ; try++ {
		if err := renew(t, d, held); err == nil {
			break
		} else if try == defaultConns {
			t.Fatalf("renewal %d since the address leads to the primary = %v; want nil", try, err)
		}
	}
}

// Each row of the table of faults is made to come from the server: by what it is about where a statement can do that, else
// by an exception with that code.
func TestFaults(t *testing.T) {
	t.Parallel()
	provoke := map[string]string{
		"25006": "DO $$ BEGIN PERFORM set_config('transaction_read_only', 'on', true); CREATE TABLE nowhere (); END $$",
		"26000": "EXECUTE nothing",
		"3F000": "CREATE TABLE nowhere.nothing ()",
		"42P01": "SELECT FROM nothing",
		"42883": "SELECT nothing()",
		"57014": "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(10)",
		"57P01": "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)",
	}
	d := open(t, fresh(server, "pool_max_conns=1"))
	backend := func() (pid uint32) {
		if err := d.query(timely(t), "SELECT pg_backend_pid()", nil, func(rows pgx.Rows) error { return rows.Scan(&pid) }); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	for code, want := range faults {
		if len(code) == 2 {
			code += "999"
		}
		statement := provoke[code]
		if statement == "" {
			statement = "DO $$ BEGIN RAISE EXCEPTION 'made to' USING ERRCODE = '" + code + "'; END $$"
		}
		before := backend()
		err := d.query(timely(t), statement, nil, func(pgx.Rows) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE "+code) {
			t.Errorf("%s: the error is %v", code, err)
			continue
		}
		if got := driver.OutcomeOf(err); got != want.outcome {
			t.Errorf("%v is %v; want %v", err, got, want.outcome)
		}
		if got := driver.IsUnreachable(err); got == want.lasts {
			t.Errorf("%v is for now: %v; want %v", err, got, !want.lasts)
		}
		if dropped := backend() != before; dropped != want.drop {
			t.Errorf("%v: the connection is dropped: %v; want %v", err, dropped, want.drop)
		}
	}
}

// Before there is a connection nothing can have been applied.
func TestFaultsOfConnecting(t *testing.T) {
	t.Parallel()
	crowded, shut := "crowded_"+schema(), "shut_"+schema()
	exec(t, connect(t, server), "CREATE ROLE "+crowded+" LOGIN PASSWORD 'pw' CONNECTION LIMIT 0; CREATE ROLE "+shut+" NOLOGIN PASSWORD 'pw'", asText)
	for user, want := range map[string]string{crowded: "53300", shut: "28000"} {
		_, err := driver.Open(timely(t), "postgres://"+user+":pw@"+server.Addr+"/postgres")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open as %s: %v; want %s", user, err, want)
		}
		marks(t, err, true, !faults[want].lasts)
	}
}
