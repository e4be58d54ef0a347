package zookeeper_test

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// amended amends a claim until the store is reached, and returns the answer.
func amended(t *testing.T, d driver.Driver, c *driver.Claim, a driver.Amendment) driver.Renewal {
	t.Helper()
	claim := *c
	claim.Amend = &a
	var answer driver.Renewal
	servertest.Until(t, "the claim is amended", func() bool {
		answer = d.Renew(t.Context(), []*driver.Claim{&claim})[0]
		return answer.Err == nil
	})
	return answer
}

// A writer that becomes a reader gets a node with the same number, in one step, in each layout that has readers. So no
// waiter comes before it, even by Curator's recipes, which go by that number. Its ticket stays.
func TestDowngradeKeepsThePlace(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	for layout, words := range map[string][2]string{
		"mutex": {"lock-", "r-lock-"}, "rw": {"__WRIT__", "__READ__"}, "latch": {"latch-", "r-latch-"},
	} {
		d := open(t, "zk://"+s.Addr+"?layout="+layout)
		reader := func(id string) *driver.Claim {
			c := claim(layout)
			c.ID, c.Weight = layout+id, 1
			return c
		}
		first, second, writer, last := claim(layout), reader("second"), claim(layout), reader("last")
		writer.ID = layout + "writer"
		enter(t, d, first, true)
		for _, c := range []*driver.Claim{second, writer, last} {
			enter(t, d, c, false)
		}
		node := a.node(first)
		number := node[strings.LastIndex(node, words[0])+len(words[0]):]
		amended(t, d, first, driver.Amendment{Weight: 1})
		if now := a.children("/stile/" + layout); len(now) != 4 || !strings.Contains(strings.Join(now, " "), words[1]+number) {
			t.Errorf("layout %s: the nodes are %q; want four, one of which ends in %s", layout, now, words[1]+number)
		}
		first.Weight = 1
		ticket := first.Ticket
		if p := enter(t, d, first, true); p.Ticket != ticket || p.Ahead != 0 {
			t.Errorf("layout %s: the reader's place is %+v; want ticket %d at the head", layout, p, ticket)
		}
		enter(t, d, second, true)
		enter(t, d, writer, false)
		enter(t, d, last, false)
		list, err := d.(driver.Lister).List(t.Context(), &driver.Query{Name: layout})
		if err != nil || len(list) != 1 || list[0].Claims[0].Ticket != ticket || list[0].Claims[0].Weight != 1 {
			t.Errorf("layout %s: list = %+v, %v; want ticket %d first, with weight 1", layout, list, err, ticket)
		}
		for _, c := range []*driver.Claim{second, first} {
			enter(t, d, writer, false)
			leave(t, d, c)
		}
		enter(t, d, writer, true)
		leave(t, d, writer)
		leave(t, d, last)
		if left := a.children("/stile/" + layout); len(left) != 0 {
			t.Errorf("layout %s: when all have left there are %q; want nothing", layout, left)
		}
	}
}
