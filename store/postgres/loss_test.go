package postgres

import (
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// losses lose answers after the server gave them, or before.
func losses(s *servertest.Server) map[string]func(testing.TB) *drivertest.Loss {
	return map[string]func(testing.TB) *drivertest.Loss{
		"a pooler of transactions loses its server": func(t testing.TB) *drivertest.Loss { return poolerLoses(t, s, "transaction") },
		"a pooler of sessions loses its server":     func(t testing.TB) *drivertest.Loss { return poolerLoses(t, s, "session") },
		"a commit is cancelled that no standby has": cancelled,
	}
}

// poolerLoses cuts a pooler's connections to the server. The pooler reports this in its own words, with the code of a broken
// protocol.
func poolerLoses(t testing.TB, s *servertest.Server, mode string) *drivertest.Loss {
	proxy := servertest.NewProxy(t, s.Addr)
	pooler := servertest.PgBouncer(t, &servertest.Server{Addr: proxy.Addr}, mode)
	in := schema()
	at := func(addr string) string { return "postgres://postgres@" + addr + "/postgres?schema=" + in }
	return &drivertest.Loss{
		Detour: drivertest.Detour{Driver: opener(at(pooler.Addr))(t), Way: proxy},
		Other:  opener(at(s.Addr))(t),
	}
}

// cancelled lets commits wait for a standby that does not follow, until they are cancelled. The server then reports success,
// with a warning that the standby may not have the commit: a failover could lose it.
func cancelled(t testing.TB) *drivertest.Loss {
	primary, standby := servertest.PostgresPair(t)
	url := fresh(primary)
	s := &standstill{t: t, admin: connect(t, primary), standby: connect(t, standby)}
	return &drivertest.Loss{
		Detour: drivertest.Detour{Driver: opener(url)(t), Way: s}, Other: opener(url)(t),
		Waits: func() bool { return s.waits("count(*)") > 0 }, // the changes are not visible yet
	}
}

// A standstill is the way of a commit to a standby that can stand still.
type standstill struct {
	drivertest.Way // it has no other trouble
	t              testing.TB
	admin, standby *pgxpool.Pool
	still          int // the stopped process; 0 if it runs
}

func (s *standstill) Freeze(_, answers bool) {
	if !answers || s.still != 0 {
		return
	}
	servertest.Until(s.t, "the standby follows", func() bool {
		return s.standby.QueryRow(timely(s.t), "SELECT pid FROM pg_stat_wal_receiver WHERE status = 'streaming'").Scan(&s.still) == nil
	})
	s.signal(syscall.SIGSTOP)
}

// Drop cancels the waiting statements, and lets the standby follow again.
func (s *standstill) Drop() {
	if s.still == 0 {
		return
	}
	// A cancelled statement that has not noticed yet would succeed if the standby followed again.
	servertest.Until(s.t, "no commit waits", func() bool { return s.waits("count(*) FILTER (WHERE pg_cancel_backend(pid))") == 0 })
	s.signal(syscall.SIGCONT)
	s.still = 0
}

// waits selects a value over the requests whose commits wait for the standby, without a client's own cleaning.
func (s *standstill) waits(what string) (n int) {
	s.t.Helper()
	const those = " FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%stile_do(%'"
	if err := s.admin.QueryRow(timely(s.t), "SELECT "+what+those).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *standstill) signal(which syscall.Signal) {
	if err := syscall.Kill(s.still, which); err != nil {
		s.t.Fatal(err)
	}
}
