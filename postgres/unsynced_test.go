package postgres

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Somebody cancels a commit that waits for the synchronous standby. The server then says yes, with a warning that no standby
// may have it. The claim is not confirmed: a failover could lose it.
func TestCancelledWhileWaitingForStandby(t *testing.T) {
	t.Parallel()
	primary, standby := servertest.PostgresPair(t)
	admin := connect(t, primary)
	d := open(t, fresh(primary))
	a := claim("name", "a")
	enter(t, d, a)
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
	cancelled("enter", func() error { _, err := d.Enter(timely(t), claim("other", "b")); return err })
	cancelled("renewal", func() error { return renew(t, d, a) })
}
