package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// toStandby returns the mishap in which an address leads to a standby for a while, as a virtual IP can in a failover. When
// it leads to the primary again, the connections to the standby still work.
func toStandby(t testing.TB) *drivertest.Mishap {
	primary := servertest.Postgres(t)
	standby := servertest.PostgresStandby(t, primary)
	address := servertest.NewProxy(t, primary.Addr)
	admin := connect(t, standby)
	return &drivertest.Mishap{
		Open: func() (driver.Driver, error) {
			return driver.Open(timely(t), "postgres://postgres@"+address.Addr+"/postgres")
		},
		Happens: func() {
			servertest.Until(t, "the standby has the claim", func() bool {
				var there bool
				err := admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM stile.stile_claim)").Scan(&there)
				return err == nil && there
			})
			address.Retarget(standby.Addr)
			address.Drop()
		},
		Over:  func() { address.Retarget(primary.Addr) },
		Keeps: true, Back: 10 * time.Second,
	}
}

// sharing returns the mishap in which a pooler that gave each client its own connection now shares connections. The next
// request uses the last used connection, which is the holder's.
func sharing(t testing.TB) *drivertest.Mishap {
	pooler := servertest.PgBouncer(t, server, "session")
	address := pooler.Addr
	var clients []driver.Driver
	return &drivertest.Mishap{
		Open: func() (driver.Driver, error) {
			d, err := driver.Open(timely(t), "postgres://postgres@"+address+"/postgres?mode=session")
			if err == nil {
				clients = append(clients, d)
			}
			return d, err
		},
		Happens: func() {
			servertest.PgBouncerMode(pooler, server, "transaction")
			for _, d := range slices.Backward(clients) { // the holder was the first
				c := claim("sharing", "any")
				enter(t, d, c)
				// Where another connection of the server answers, the driver finds out that it shares, and the outcome is unknown.
				if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil && driver.OutcomeOf(err) != driver.OutcomeUnknown {
					t.Errorf("leave = %v", err)
				}
			}
			address = server.Addr // the pooler is refused
		},
	}
}
