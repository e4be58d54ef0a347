package zookeeper

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// An ensemble that comes back empty, or as an old copy of itself, gives tickets again that it gave before. A client that has
// seen more does not use such a one, neither by the session that it has nor by the next.
func TestStoreIsReplaced(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]bool{"the session lives": false, "the session is over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servertest.ZooKeeper(t)
			s := &straying{T: t}
			s.d = s.driver(server.Addr)
			for range 50 {
				c := s.claim("other")
				s.enter(s.d, c)
				if err := s.d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
					t.Fatalf("leave: %v", err)
				}
			}
			before := s.claim("before")
			s.enter(s.d, before)
			if over {
				s.d.session.Close(true)
			}
			server.Forget()
			again := s.claim("again")
			s.enter(s.driver(server.Addr), again)
			if again.Ticket >= before.Ticket {
				t.Fatalf("the new server's ticket is %d, and the old one's %d; want that they repeat, or this shows nothing",
					again.Ticket, before.Ticket)
			}
			for begun := time.Now(); time.Since(begun) < 3*time.Second; {
				late := s.claim("late")
				late.Try = true
				if p, err := s.d.Enter(t.Context(), late); err == nil {
					t.Fatalf("enter = %+v; want an error, since the servers are not those of before", p)
				}
			}
		})
	}
}
