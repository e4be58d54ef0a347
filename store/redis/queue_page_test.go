package redis

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A claim that leaves does not remove the claims behind it, however long its record is: a queue may go on after the page
// that the script read.
func TestLeaveOfOnePage(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	shared := func(id string) *driver.Claim {
		c := claim("name", id)
		c.Weight = 1
		return c
	}
	first, second, writer := shared("first"), shared("second"), claim("name", "writer")
	first.Record = ""
	first.Record = strings.Repeat("r", page-len(packClaim(first))-(18+45-claimAfterState-8))
	enter(t, d, first)
	if raw, _ := s.Redis([]string{"GET", d.key("name")}).(string); len(raw) != page {
		t.Fatalf("the queue of one claim has %d bytes, want %d", len(raw), page)
	}
	if p := enter(t, d, second); !p.Holds {
		t.Fatalf("the second reader does not hold: %+v", p)
	}
	leave(t, d, first)
	if p := enter(t, d, writer); p.Holds {
		t.Errorf("a writer holds beside a reader: %+v", p)
	}
	for i, r := range d.Renew(timely(t), []*driver.Claim{second}) {
		if r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
}
