package quorum_test

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/quorum"
)

// A holder hears of a request for its lock that a majority of the nodes has counted, once, whichever nodes answer first.
func TestAsk(t *testing.T) {
	t.Parallel()
	list := servers(3)
	var nodes []quorum.Node
	var members []*member
	for i, s := range list {
		members = append(members, &member{s.store.Driver(), s})
		nodes = append(nodes, quorum.Node{Name: string(rune('a' + i)), Driver: members[i]})
	}
	d, err := quorum.New(t.Context(), nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	breaker := d.(driver.Breaker)
	if !d.Traits().Asks {
		t.Error("the traits say that a holder cannot be asked; want that it can, as on all nodes")
	}
	if _, err := breaker.Break(t.Context(), &driver.BreakRequest{Name: "held", Ask: true}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("asking when nobody holds = %v; want ErrGone", err)
	}
	c := claim("held", "holder")
	holds(t, d, c)
	for asks := range int64(3) {
		for range 20 {
			if r := d.Renew(t.Context(), []*driver.Claim{c})[0]; r.Err != nil || r.Asks != asks {
				t.Fatalf("renewal = %+v; want %d askings", r, asks)
			}
		}
		s, err := breaker.Break(t.Context(), &driver.BreakRequest{Name: "held", Ask: true})
		if err != nil || s.Record != c.Record {
			t.Fatalf("ask = %+v, %v; want the holder", s, err)
		}
	}
	leaves(t, d, c)
}
