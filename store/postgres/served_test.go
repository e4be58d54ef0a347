package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(*testing.T) drivertest.Store {
		url := "postgres://postgres@" + server.Addr + "/postgres?schema=" + schema()
		return drivertest.Store{Open: opener(url), Fresh: fresher(server), Lease: 600 * time.Millisecond}
	}, nil, 0, 1, 2, 3)
}

// The server notifies the driver by which a claim entered last. Another driver that adopts the claim is notified in its
// place, and the lease does not restart.
func TestAdopt(t *testing.T) {
	t.Parallel()
	url := fresh(server)
	one, another := open(t, url), open(t, url)
	holder, waiter, brief := claim("name", "holder"), claim("name", "waiter"), claim("name", "brief")
	brief.TTL, brief.Wait = time.Second, time.Second
	enter(t, one, holder)
	enter(t, one, waiter)
	enter(t, one, brief)
	listens(t, another, waiter) // the claim enters by that driver too
	enter(t, one, waiter)
	if p, err := another.Adopt(timely(t), waiter); err != nil || p.Holds || p.Ticket != waiter.Ticket || p.Ahead != 1 {
		t.Fatalf("adopt = %+v, %v; want its place behind the holder", p, err)
	}
	for {
		if p, err := another.Adopt(timely(t), brief); errors.Is(err, driver.ErrGone) {
			break
		} else if err != nil || p.TTL > brief.TTL {
			t.Fatalf("adopt = %+v, %v; want what is left of the lease", p, err)
		}
	}
	leave(t, one, holder)
	if p, err := another.Await(timely(t), waiter); err != nil || !p.Holds {
		t.Errorf("await of the adopted claim = %+v, %v; want its turn", p, err)
	}
	if p, err := one.Adopt(timely(t), waiter); err != nil || !p.Holds {
		t.Errorf("adopt of a claim that holds = %+v, %v; want that it holds", p, err)
	}
	if _, err := one.Adopt(timely(t), claim("name", "none")); driver.OutcomeOf(err) != driver.OutcomeRefused {
		t.Errorf("adopt of a claim without a ticket = %v; want a refusal", err)
	}
}
