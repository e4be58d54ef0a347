package zookeeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// woken waits until Await returns for a claim that waits.
func woken(t *testing.T, d driver.Driver, c *driver.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := d.Await(ctx, c); err != nil {
		t.Fatalf("await: %v", err)
	}
}

// The claim right behind the head holds when the head goes, without a look at the queue.
func TestNextNeedNotLook(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	for _, layout := range []string{"mutex", "latch"} {
		url := "zk://" + s.Addr + "?session=60s&layout=" + layout
		a, b := open(t, url), open(t, url)
		sum := 0
		const rounds = 5
		for range rounds {
			holder, waiter := claim("next"), claim("next")
			enter(t, a, holder, true)
			enter(t, b, waiter, false)
			before := traffic(t, s)
			leave(t, a, holder)
			woken(t, b, waiter)
			enter(t, b, waiter, true)
			sum += traffic(t, s) - before
			leave(t, b, waiter)
		}
		// The request to leave, its answer, the event, and the questions about the count; a list and its answer would be two
		// more. The rest is for signs of life, on a machine that is slow.
		if most := 7 * rounds; sum > most {
			t.Errorf("layout %s: %d hand-overs take %d packets; want at most %d", layout, rounds, sum, most)
		}
	}
}

// A head that becomes a reader has another node, and is not gone.
func TestNextWaitsForWhatWasAmended(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	for _, layout := range []string{"mutex", "rw", "latch"} {
		url := "zk://" + s.Addr + "?layout=" + layout
		a, b := open(t, url), open(t, url)
		holder, waiter := claim(layout), claim(layout)
		enter(t, a, holder, true)
		enter(t, b, waiter, false)
		amended(t, a, holder, driver.Amendment{Weight: 1})
		woken(t, b, waiter)
		enter(t, b, waiter, false)
		holder.Weight = 1
		leave(t, a, holder)
		woken(t, b, waiter)
		enter(t, b, waiter, true)
		leave(t, b, waiter)
	}
}

// A claim whose own node was removed before the head went does not hold.
func TestNextWasRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a, b, by := open(t, "zk://"+s.Addr), open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	holder, waiter, last := claim("removed"), claim("removed"), claim("removed")
	enter(t, a, holder, true)
	enter(t, b, waiter, false)
	enter(t, a, last, false)
	both := []*wire.Call{wire.Delete(by.node(waiter)), wire.Delete(by.node(holder))}
	by.do(both...)
	woken(t, b, waiter)
	// When the list has come, both events have come too.
	if _, err := b.(driver.Lister).List(t.Context(), &driver.Query{Name: "removed"}); err != nil {
		t.Fatalf("list: %v", err)
	}
	if p, err := b.Enter(t.Context(), waiter); !errors.Is(err, driver.ErrGone) {
		t.Errorf("enter = %+v, %v; want ErrGone", p, err)
	}
	servertest.Until(t, "the last holds", func() bool {
		p, err := a.Enter(t.Context(), last)
		return err == nil && p.Holds
	})
}

// A claim that waits behind several learns in the end who holds, and that its own node was removed.
func TestDeepWaiterIsTold(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	d, by := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	holder, second, third := claim("deep"), claim("deep"), claim("deep")
	holder.Record = "who holds"
	enter(t, d, holder, true)
	enter(t, d, second, false)
	enter(t, d, third, false)
	woken(t, d, third)
	if p := enter(t, d, third, false); p.Blocker.Ticket != holder.Ticket || p.Blocker.Record != holder.Record || p.Ahead != 2 {
		t.Errorf("the third's place is %+v; want two ahead of it, and to be told of %+v", p, holder)
	}
	by.remove(by.node(third))
	woken(t, d, third)
	if p, err := d.Enter(t.Context(), third); !errors.Is(err, driver.ErrGone) {
		t.Errorf("enter = %+v, %v; want ErrGone", p, err)
	}
}
