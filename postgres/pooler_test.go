package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// Through a pooler that shares connections between transactions all works but notifications: waiters poll, and the
// traits say so.
func TestContractThroughPooler(t *testing.T) {
	t.Parallel()
	pooler := servertest.PgBouncer(t, server, "transaction")
	url := fresh(pooler)
	traits := open(t, url).Traits()
	if traits.Wake != "poll" || !strings.Contains(strings.Join(traits.Remarks(), "\n"), "pooler") {
		t.Errorf("wake is %q, with notes %q; want polling, and why", traits.Wake, traits.Remarks())
	}
	drivertest.Run(t, drivertest.Store{Open: opener(url), Fresh: fresher(pooler), Lease: time.Second})
}

// One that gives each client a connection of its own is not in the way.
func TestSessionPooler(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(servertest.PgBouncer(t, server, "session")))
	if wake := d.Traits().Wake; wake != "push" {
		t.Errorf("wake is %q; want push", wake)
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)
}
