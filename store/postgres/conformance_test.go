package postgres

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	s := schema()
	at := func(addrs ...string) string { return "postgres://postgres@" + addrs[0] + "/postgres?schema=" + s }
	drive.Lacks(t, opener(at(server.Addr)))
	mishaps := drive.TableMishaps(func(t testing.TB) (string, func(string), []string) {
		in, s := pool(t), schema()
		return "postgres://postgres@" + server.Addr + "/postgres?schema=" + s, func(statement string) {
			if _, err := in.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}, []string{s + ".stile_name", s + ".stile_claim"}
	})
	mishaps["its address leads to a standby for a while"] = toStandby
	drivertest.Run(t, drivertest.Store{
		Cleaning:     cleaning,
		Work:         counted,
		Transactions: transactions(false),
		Losses:       losses(server),

		Open:   opener(at(server.Addr)),
		Detour: drive.Detour(at, server.Addr),
		Fresh:  fresher(server),
		Stall: func(t testing.TB) *drivertest.Stalled {
			s := servertest.NewStall(t, server.Addr)
			return &drivertest.Stalled{Driver: opener(at(s.Addr))(t), After: s.After, Still: s.Still, Pass: s.Pass}
		},
		Lease: 600 * time.Millisecond,
		Edge: drive.Edges(func(t testing.TB, _ string) (string, func(int64)) {
			in, s := pool(t), schema()
			return "postgres://postgres@" + server.Addr + "/postgres?schema=" + s, func(ticket int64) {
				if _, err := in.ExecContext(timely(t), "UPDATE "+s+".stile_meta SET floor = $1", ticket); err != nil {
					t.Fatal(err)
				}
			}
		}),
		Lacking: lacking(),
		Mishaps: mishaps,
	})
}

// Locks that end with their connection. LockTx excludes them.
func TestContractOfSessions(t *testing.T) {
	t.Parallel()
	at := func(addrs ...string) string { return "postgres://postgres@" + addrs[0] + "/postgres?mode=session" }
	drive.Lacks(t, opener(at(server.Addr)),
		driver.TraitOrder, driver.TraitPermits, driver.TraitFencing, driver.TraitLockDelay, driver.TraitAmend)
	drivertest.Run(t, drivertest.Store{
		Open:         opener(at(server.Addr)),
		Detour:       drive.Detour(at, server.Addr),
		Lease:        600 * time.Millisecond,
		Transactions: transactions(true),
		Mishaps: map[string]func(testing.TB) *drivertest.Mishap{
			"its pooler begins to share connections": sharing,
		},
	})
}

// cleaning makes a store whose clock the suite can move on.
func cleaning(t testing.TB) *drivertest.Cleaning {
	t.Helper()
	d, step := stepped(t)
	later := time.Duration(0)
	return &drivertest.Cleaning{
		Driver: d,
		Later:  func(by time.Duration) { later += by; step(later) },
		Clean:  func() error { _, err := d.clean(timely(t), time.Hour, 3); return err },
		Names:  func() int { return count(t, d, names) },
	}
}

// fresher returns a function that makes stores on a server, each in a schema of its own or under a prefix of its own.
func fresher(s *servertest.Server) func(testing.TB) func() driver.Driver {
	shared := schema()
	return func(t testing.TB) func() driver.Driver {
		open := opener("postgres://postgres@" + s.Addr + "/postgres?schema=" + shared + "&prefix=p" + strings.ToLower(rand.Text()) + "_")
		return func() driver.Driver { return open(t) }
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener(fresh(server))}, 1, 2000)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := schema()
	url := func(addrs ...string) string { return "postgres://postgres@" + addrs[0] + "/postgres?schema=" + s }
	drivertest.Concurrent(t, drivertest.Store{Open: opener(url(server.Addr)), Detour: drive.Detour(url, server.Addr)}, 1, 6)
}
