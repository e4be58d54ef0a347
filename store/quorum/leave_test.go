package quorum_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// The driver remembers nothing of a claim that is gone, or was refused for good.
func TestNothingIsKeptOfWhatIsOver(t *testing.T) {
	t.Parallel()
	list := servers(3)
	d, members := open(t, list, nil)
	removed := func(c *driver.Claim) {
		t.Helper()
		for !quorum.Settled(d) {
			runtime.Gosched()
		}
		for _, m := range members {
			if err := m.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := claim("held", "holder")
	holds(t, d, c)
	removed(c)
	if r := d.Renew(t.Context(), []*driver.Claim{c})[0]; !errors.Is(r.Err, driver.ErrGone) {
		t.Errorf("renewal = %v; want ErrGone", r.Err)
	}
	again := claim("held", "again")
	holds(t, d, again)
	removed(again)
	if _, err := d.Enter(t.Context(), again); !errors.Is(err, driver.ErrGone) {
		t.Errorf("enter = %v; want ErrGone", err)
	}
	if n := quorum.Known(d); n != 0 {
		t.Errorf("%d claims that are over are remembered", n)
	}
}

// Nodes that are slow for a short lease still have enough time to let its claim go.
func TestShortLeaseLeavesSlowNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, nodes := faulty(t, nil)
		defer d.Close()
		c := claim("slow", "claim")
		c.TTL, c.Wait = 100*time.Millisecond, 100*time.Millisecond
		holds(t, d, c)
		synctest.Wait()
		for _, n := range nodes {
			n.Inject(memory.Fault{Verb: memory.Leave, Before: 90 * time.Millisecond})
		}
		leaves(t, d, c)
	})
}

// A claim that one of three nodes never had leaves by the other two, even if one of them is slow.
func TestLeaveWaitsForTheNodeThatDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, nodes := faulty(t, nil)
		defer d.Close()
		other, c := claim("slow", "other"), claim("slow", "claim")
		holds(t, nodes[2].Store().Driver(), other)
		holds(t, d, c)
		synctest.Wait()
		nodes[1].Inject(memory.Fault{Verb: memory.Leave, Before: 500 * time.Millisecond})
		leaves(t, d, c)
		if on := standsOn(t, nodes, c.Name); len(on) != 1 || on[0] != 2 {
			t.Errorf("the name is taken on nodes %v; want the last only, by another", on)
		}
	})
}

// A claim that has left most nodes, and is about to leave the rest, keeps no other out, even if a node is slow to vote and
// the lead of the waiters is among the rest.
func TestLeavingKeepsNobodyOut(t *testing.T) {
	for first := range 5 {
		for _, other := range []bool{false, true} {
			for _, try := range []bool{false, true} {
				for _, votes := range []time.Duration{60 * time.Millisecond, 200 * time.Millisecond} {
					synctest.Test(t, func(t *testing.T) { leavingKeepsNobodyOut(t, first, other, try, votes) })
				}
			}
		}
	}
}

// leavingKeepsNobodyOut lets a claim leave two of five nodes late, beginning with first, and another claim enter by the same
// client or by another one. A third node votes late, and is late to take the vote back.
func leavingKeepsNobodyOut(t *testing.T, first int, other, try bool, votes time.Duration) {
	list := servers(5)
	a, leaving := open(t, list, nil)
	b, voting := a, leaving
	if other {
		b, voting = open(t, list, nil)
	}
	defer func() {
		a.Close()
		b.Close()
	}()
	was, next := claim("left", "was"), claim("left", "next")
	next.Try = try
	holds(t, a, was)
	synctest.Wait()
	for i := range 2 {
		leaving[(first+i)%5].Inject(memory.Fault{Verb: memory.Leave, Before: time.Second})
	}
	leaves(t, a, was)
	slow := voting[(first+2)%5]
	slow.Inject(memory.Fault{Verb: memory.Enter, Before: votes})
	slow.Inject(memory.Fault{Verb: memory.Leave, Before: 60 * time.Millisecond})
	p, err := b.Enter(t.Context(), next)
	if err != nil || !p.Holds {
		const says = "a claim leaves nodes %d and %d late, and a vote takes %v: enter by another client: %v, that tries: %v, " +
			"= %+v, %v; want it to hold"
		t.Errorf(says,
			first, (first+1)%5, votes, other, try, p, err)
	}
}
