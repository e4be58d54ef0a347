package postgres

import (
	"testing"
	"time"

	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	s := schema()
	at := func(addrs ...string) string { return "postgres://postgres@" + addrs[0] + "/postgres?schema=" + s }
	drivertest.Run(t, drivertest.Store{
		Open:   opener(at(server.Addr)),
		Detour: drive.Detour(at, server.Addr),
		Stall: func(t testing.TB) *drivertest.Stalled {
			s := servertest.NewStall(t, server.Addr)
			return &drivertest.Stalled{Driver: opener(at(s.Addr))(t), After: s.After, Still: s.Still, Pass: s.Pass}
		},
		Lease: 600 * time.Millisecond,
	})
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
