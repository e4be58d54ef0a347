package postgres

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// If the synchronous standby freezes, a call ends after one bounded wait.
func TestStandbyFreezes(t *testing.T) {
	t.Parallel()
	primary, standby := servertest.PostgresPair(t)
	drive.SilentMember(t, "postgres://postgres@"+primary.Addr+"/postgres", "name", func() {
		t.Cleanup(servertest.PausePostgres(standby))
	})
}
