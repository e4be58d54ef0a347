package zookeeper_test

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// go-zookeeper leaves its node in the queue when a request after its creation fails: samuel/go-zookeeper#229.
func TestRefusedAfterCreate(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]int32{"list": listChildren, "read": readNode} {
		f := newFake(t, 0)
		d := open(t, "zk://"+f.addr)
		enter(t, d, claim("refused"), true)
		f.refuses(op, noAuth)
		if p, err := d.Enter(t.Context(), claim("refused")); !driver.NotApplied(err) {
			t.Errorf("enter where %s is refused = %+v, %v; want it rejected", name, p, err)
		}
		servertest.Until(t, "the claim's node is gone", func() bool { return f.count() == 1 })
	}
}

// A node whose transaction is too high for a ticket is no claim.
func TestTicketOverflow(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0)
	d := open(t, "zk://"+f.addr)
	f.mu.Lock()
	f.zxid = 1<<53 - 2
	f.mu.Unlock()
	c := claim("late")
	enter(t, d, c, true)
	leave(t, d, c)
	if p, err := d.Enter(t.Context(), claim("late")); !driver.NotApplied(err) {
		t.Errorf("enter = %+v, %v; want it rejected", p, err)
	}
	if n := f.count(); n != 0 {
		t.Errorf("%d nodes are left; want none", n)
	}
}
