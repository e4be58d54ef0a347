package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A commit that waits for the synchronous standby is cancelled. The server then reports success, with a warning that the
// standby may not have the commit. The claim is not confirmed: a failover could lose it.
func TestCancelledWhileWaitingForStandby(t *testing.T) {
	t.Parallel()
	primary, standby := servertest.PostgresPair(t)
	admin := connect(t, primary)
	config := connect(t, primary).Config()
	config.ConnConfig.RuntimeParams["application_name"] = "stile"
	deaf := over(t, config)
	config.ConnConfig.OnNotice = OnNotice
	heeds := over(t, config)
	for d, want := range map[*Driver]bool{deaf: true, heeds: false} {
		if got := strings.Contains(strings.Join(d.Traits().Remarks(), " "), "postgres.OnNotice"); got != want {
			t.Errorf("the traits advise OnNotice: %v; want %v", got, want)
		}
	}
	drivers := map[string]*Driver{"by a URL": open(t, fresh(primary)), "over a pool": heeds}
	held := map[string]*driver.Claim{}
	for by, d := range drivers {
		hasCleaned(t, d) // its commit would wait, and be cancelled, too
		held[by] = claim("name", "a")
		enter(t, d, held[by])
	}
	servertest.KillPostgres(standby)
	cancelled := func(what string, call func() error) {
		t.Helper()
		told := make(chan error, 1)
		go func() { told <- call() }()
		servertest.Until(t, "a commit that waits for the standby is cancelled", func() bool {
			var n int
			scan(t, admin, &n, `SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND application_name = 'stile'`)
			return n > 0
		})
		err := <-told
		if err == nil || driver.OutcomeOf(err) != driver.OutcomeUnknown || !driver.IsUnreachable(err) {
			t.Errorf("%s = %v; want an unknown outcome", what, err)
		}
	}
	for by, d := range drivers {
		cancelled("enter "+by, func() error { _, err := d.Enter(timely(t), claim("other", "b")); return err })
		cancelled("renewal "+by, func() error { return renew(t, d, held[by]) })
	}
}

// over opens tables of its own over a pool.
func over(t *testing.T, config *pgxpool.Config) *Driver {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d, err := New(timely(t), pool, &Options{Schema: schema()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
