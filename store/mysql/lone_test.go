package mysql

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// count returns how many rows a condition selects.
func count(t *testing.T, d *Driver, where string) (n int) {
	t.Helper()
	if err := d.store.db.QueryRowContext(timely(t), "SELECT COUNT(*) FROM "+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	lone   = "stile_name WHERE ends > 0"
	queued = "stile_name n JOIN stile_claim c ON c.hash = n.hash WHERE n.queued"
)

// loner returns a client of a new database.
func loner(t *testing.T) *drive.Lone {
	t.Helper()
	d := open(t, fresh(t, server))
	return &drive.Lone{
		Driver:  d,
		Alone:   func(t *testing.T) int { return count(t, d, lone) },
		Queued:  func(t *testing.T) int { return count(t, d, queued) },
		Empty:   func(t *testing.T) { mustExec(t, d.store.db, "TRUNCATE stile_name") },
		Listens: func(*testing.T, *driver.Claim) {}, // it holds without a notification
	}
}

func TestLone(t *testing.T) {
	t.Parallel()
	drive.LoneMovesOut(t, loner)
}

func TestLoneEnds(t *testing.T) {
	t.Parallel()
	drive.LoneEnds(t, loner)
}

// The answer to an Enter into an empty queue is lost. The same Enter again finds the claim.
func TestLoneAnswerLost(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	proxy := servertest.NewProxy(t, server.Addr)
	d, direct := open(t, "mysql://root@"+proxy.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
	a, first := claim("name", "a"), claim("name", "first")
	enter(t, d, first)
	leave(t, d, first)
	proxy.Freeze(false, true)
	entered := make(chan error, 1)
	go func() {
		_, err := d.Enter(timely(t), claim("name", "a"))
		entered <- err
	}()
	servertest.Until(t, "the claim is there", func() bool { return count(t, direct, lone) == 1 })
	proxy.Cut()
	marks(t, <-entered, false, true)
	proxy.Mend()
	if p := enter(t, d, a); !p.Holds || p.Ticket <= first.Ticket {
		t.Errorf("entering again = %+v; want to hold", p)
	}
	list, err := d.List(timely(t), &driver.Query{Name: "name"})
	if err != nil || len(list) != 1 || len(list[0].Claims) != 1 || list[0].Claims[0].Ticket != a.Ticket {
		t.Errorf("list = %+v, %v; want one claim with ticket %d", list, err, a.Ticket)
	}
}
