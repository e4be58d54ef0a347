package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// After another client has removed a claim, late requests of the claim's client keep nobody out: neither an Enter that
// reaches some nodes late, nor the repair of others that answer a renewal late.
func TestLateRequestsOfAnotherClientKeepNobodyOut(t *testing.T) {
	for _, n := range []int{3, 5} {
		for first := range n {
			synctest.Test(t, func(t *testing.T) {
				list := servers(n)
				a, _ := open(t, list, nil)
				b, members := open(t, list, nil)
				var nodes []*memory.Driver
				for _, m := range members {
					nodes = append(nodes, m.Driver)
				}
				lateAfterAnotherLeft(t, a, b, nodes, first)
			})
			synctest.Test(t, func(t *testing.T) {
				list := stores(n)
				var (
					nodes []*memory.Driver
					own   []driver.Driver
				)
				for _, s := range list {
					nodes = append(nodes, s.Driver())
					own = append(own, nodes[len(nodes)-1])
				}
				lateAfterAnotherLeft(t, over(t, list, nil), quorumOf(t, own, nil), nodes, first)
			})
		}
	}
}

// lateAfterAnotherLeft makes the Enter of client b late on a minority of the nodes, beginning with first, and its renewal
// late on another minority, until client a removes the claim.
func lateAfterAnotherLeft(t *testing.T, a, b driver.Driver, nodes []*memory.Driver, first int) {
	defer func() {
		a.Close()
		b.Close()
	}()
	c, again, next := claim("left", "was"), claim("left", "was"), claim("left", "next")
	holds(t, a, c)
	synctest.Wait()
	n := len(nodes)
	for i := range n / 2 {
		nodes[(first+i)%n].Inject(memory.Fault{Verb: memory.Enter, Before: time.Second})
		nodes[(first+n/2+i)%n].Inject(memory.Fault{Verb: memory.Renew, Before: 500 * time.Millisecond})
	}
	holds(t, b, again)
	if r := b.Renew(t.Context(), []*driver.Claim{again})[0]; r.Err != nil {
		t.Fatalf("renewal by the other client = %v; want nil", r.Err)
	}
	leaves(t, a, c)
	pass(2 * time.Second)
	next.Try = true
	p, err := a.Enter(t.Context(), next)
	if err != nil || !p.Holds {
		t.Errorf("%d nodes, late from %d on: enter after the claim has left = %+v, %v, and it stands on nodes %v; want it to hold",
			n, first, p, err, standsOn(t, nodes, c.Name))
	}
}

// A claim leaves while a node is being repaired. The node lets the claim go too, and counts for the Leave: another may be
// down.
func TestRepairedNodeCountsForTheLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, nodes := faulty(t, nil)
		defer d.Close()
		other, c := claim("left", "other"), claim("left", "claim")
		holds(t, nodes[2].Store().Driver(), other)
		holds(t, d, c)
		leaves(t, nodes[2].Store().Driver(), other)
		nodes[2].Inject(memory.Fault{Verb: memory.Enter, Before: 200 * time.Millisecond})
		pass(c.TTL/20 + 100*time.Millisecond)
		nodes[0].SetLink(memory.Refused)
		leaves(t, d, c)
		if on := standsOn(t, nodes[1:], c.Name); len(on) > 0 {
			t.Errorf("the name is taken on nodes %v after the claim has left; want none", on)
		}
	})
}
