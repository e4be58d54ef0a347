package quorum_test

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/quorum"
)

// A claim that is entering has one node's vote. If somebody breaks it on that node, the claim may come to believe that it
// holds. So the outcome of the break is unknown.
func TestBreakOfOneVote(t *testing.T) {
	t.Parallel()
	list := servers(3)
	var nodes []quorum.Node
	var first *member
	for i, s := range list {
		m := &member{s.store.Driver(), s}
		if i == 0 {
			first = m
		}
		nodes = append(nodes, quorum.Node{Name: string(rune('a' + i)), Driver: m})
	}
	d, err := quorum.New(t.Context(), nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if _, err := first.Enter(t.Context(), claim("name", "entering")); err != nil {
		t.Fatal(err)
	}
	b := &driver.BreakRequest{Name: "name"}
	if s, err := d.(driver.Breaker).Break(t.Context(), b); err == nil || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("break of what one of three nodes has = %+v, %v; want that its outcome is unknown", s, err)
	}
	if s, err := d.(driver.Breaker).Break(t.Context(), b); !errors.Is(err, driver.ErrGone) {
		t.Errorf("break of what no node has = %+v, %v; want ErrGone", s, err)
	}
}
