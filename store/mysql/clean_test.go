package mysql

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A name whose row was deleted gets a higher ticket than before, even if the server's clock ran back.
func TestCleanKeepsTickets(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server))
	const ahead = 1 << 52 // of any clock
	c := claim("name", "a")
	enter(t, d, c)
	mustExec(t, d.store.db, fmt.Sprintf("UPDATE stile_claim SET ticket = %d; UPDATE stile_name SET last = %d", ahead, ahead))
	held := claim("held", "b")
	enter(t, d, held)
	c.Ticket = ahead
	if n, err := d.store.clean(timely(t), -200*365*24*time.Hour, 10); n != 0 || err != nil {
		t.Errorf("clean beside claims = %d, %v; want 0", n, err)
	}
	leave(t, d, c)
	if n, err := d.store.clean(timely(t), time.Hour, 10); n != 0 || err != nil {
		t.Errorf("clean of names just used = %d, %v; want 0", n, err)
	}
	if n, err := d.store.clean(timely(t), -200*365*24*time.Hour, 10); n != 1 || err != nil {
		t.Errorf("clean = %d, %v; want 1", n, err)
	}
	if p := enter(t, d, claim("name", "c")); p.Ticket <= ahead {
		t.Errorf("the ticket is %d; want one above %d", p.Ticket, int64(ahead))
	}
}

// Rows of names are deleted while claims enter and leave. No ticket is given twice.
func TestCleanWhileEntering(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t, server))
	var (
		all  sync.WaitGroup
		done = make(chan struct{})
		mu   sync.Mutex
		last int64
	)
	for w := range 2 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				c := claim("name", fmt.Sprint(w, "-", i))
				p, err := d.Enter(timely(t), c)
				if err != nil {
					t.Errorf("enter: %v", err)
					return
				}
				if p.Holds {
					mu.Lock()
					if p.Ticket <= last {
						t.Errorf("ticket %d comes after %d", p.Ticket, last)
					}
					last = p.Ticket
					mu.Unlock()
				}
				if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil {
					t.Errorf("leave: %v", err)
					return
				}
			}
		})
	}
	cleaned := 0
	servertest.Until(t, "rows were deleted", func() bool {
		n, err := d.store.clean(timely(t), -time.Hour, 10)
		if err != nil {
			t.Errorf("clean: %v", err)
		}
		cleaned += n
		return cleaned >= 3 || t.Failed()
	})
	close(done)
	all.Wait()
}
