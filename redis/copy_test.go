package redis_test

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A server comes back with an older copy of its data. Tickets rise all the same, since they follow its clock.
func TestOlderCopy(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, durable...)
	if lost, next := drive.OlderCopy(t, s, "redis://"+s.Addr, "appendonlydir"); next <= lost {
		t.Errorf("the ticket after the copy is %d, and was %d; want it to rise", next, lost)
	}
}
