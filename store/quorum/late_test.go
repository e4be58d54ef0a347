package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// faulty opens a quorum of three nodes in memory, whose requests can be lost and late.
func faulty(t *testing.T, o *quorum.Options) (driver.Driver, []*memory.Driver) {
	t.Helper()
	var (
		drivers []*memory.Driver
		nodes   []quorum.Node
	)
	for i := range 3 {
		drivers = append(drivers, memory.New())
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("m", i), Driver: drivers[i]})
	}
	d, err := quorum.New(t.Context(), nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	return d, drivers
}

// lateOn enters a claim whose Enter reaches some nodes after a second, and whose Leave after that never does. The quorum
// draws another id for the claim on each of these nodes.
func lateOn(t *testing.T, d driver.Driver, nodes []*memory.Driver, c *driver.Claim) {
	t.Helper()
	for _, n := range nodes {
		n.Inject(memory.Fault{Verb: memory.Enter, Before: time.Second, Late: true})
		n.Inject(memory.Fault{Verb: memory.Leave, Hang: true})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if p, err := d.Enter(ctx, c); err == nil || driver.NotApplied(err) {
		t.Fatalf("enter whose requests are late = %+v, %v; want its outcome unknown", p, err)
	}
	pass(500 * time.Millisecond)
}

// standsOn lists the nodes on which a name is taken.
func standsOn(t *testing.T, nodes []*memory.Driver, name string) (on []int) {
	t.Helper()
	for i, n := range nodes {
		list, err := n.List(t.Context(), &driver.Query{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			on = append(on, i)
		}
	}
	return on
}

// An Enter that arrives late, by an earlier id of the claim, is taken out with the claim. The claim is gone if no node has
// it by any of its ids.
func TestLateEnterByAnEarlierIDLeaves(t *testing.T) {
	for _, late := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			d, nodes := faulty(t, &quorum.Options{Timeout: 100 * time.Millisecond})
			defer d.Close()
			c := claim("late", "claim")
			lateOn(t, d, nodes[:late], c)
			leave := func() error {
				err := d.Leave(t.Context(), &driver.Release{Claim: c})
				synctest.Wait()
				return err
			}
			if err := leave(); err != nil && !errors.Is(err, driver.ErrGone) {
				t.Errorf("leave before the requests arrive = %v; want nil or ErrGone", err)
			}
			pass(time.Second)
			if on := standsOn(t, nodes, c.Name); len(on) != late {
				t.Fatalf("the name is taken on nodes %v when the requests have arrived; want %d", on, late)
			}
			if err := leave(); err != nil {
				t.Errorf("leave = %v; want nil, since the claim stood on a majority", err)
			}
			if on := standsOn(t, nodes, c.Name); len(on) > 0 {
				t.Errorf("the name is taken on nodes %v after the claim has left; want none", on)
			}
			if err := leave(); !errors.Is(err, driver.ErrGone) {
				t.Errorf("leave of what has left = %v; want ErrGone", err)
			}
		})
	}
}

// A claim does not wait for itself: it first leaves by the earlier id whose request arrived late, and then enters by the
// present one.
func TestLateEnterByAnEarlierIDIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, nodes := faulty(t, &quorum.Options{Timeout: 100 * time.Millisecond})
		defer d.Close()
		c := claim("late", "claim")
		lateOn(t, d, nodes, c)
		pass(time.Second)
		if on := standsOn(t, nodes, c.Name); len(on) != 3 {
			t.Fatalf("the name is taken on nodes %v; want all", on)
		}
		holds(t, d, c)
		synctest.Wait()
		for i, n := range nodes {
			list, err := n.List(t.Context(), &driver.Query{Name: c.Name})
			if err != nil || len(list) != 1 || len(list[0].Claims) != 1 {
				t.Errorf("node %d has %+v, %v; want the claim once", i, list, err)
			}
		}
		if err := d.Leave(t.Context(), &driver.Release{Claim: c, Keep: time.Second}); err != nil {
			t.Errorf("leave = %v; want nil", err)
		}
		synctest.Wait()
		if on := standsOn(t, nodes, c.Name); len(on) != 3 {
			t.Errorf("the lock is kept on nodes %v; want all", on)
		}
	})
}

// A vote for an earlier id does not count: the claim does not hold by it, and the entry only keeps others out.
func TestLateEnterByAnEarlierIDDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, nodes := faulty(t, &quorum.Options{Timeout: 100 * time.Millisecond})
		defer d.Close()
		c, other := claim("late", "claim"), claim("late", "other")
		lateOn(t, d, nodes[:2], c) // by earlier ids on 0 and 1
		pass(time.Second)
		for _, n := range nodes[:2] {
			n.Inject(memory.Fault{Verb: memory.Leave, Drop: true, Times: -1})
		}
		if p, err := d.Enter(t.Context(), c); err != nil || p.Holds {
			t.Errorf("enter = %+v, %v while its own late requests hold two nodes; want it to wait", p, err)
		}
		if a := d.Renew(t.Context(), []*driver.Claim{c})[0]; a.Err == nil {
			t.Error("renewal = nil of a claim that stands by earlier ids; want an error")
		}
		if p, err := d.Enter(t.Context(), other); err != nil || p.Holds {
			t.Errorf("enter of another = %+v, %v; want it to wait", p, err)
		}
		pass(c.TTL)
		holds(t, d, other) // the entries that nobody could take out ended with their leases
		for _, n := range nodes {
			n.Heal()
		}
	})
}

// A slowRaise is a member that does not answer a Raise, as if the request were late.
type slowRaise struct {
	*member
	mu    sync.Mutex
	late  map[string]bool // the ids of these requests
	again []string        // of these, the ids that it got a later Vote for
}

func (m *slowRaise) Raise(ctx context.Context, c *driver.Claim, _ int64) error {
	m.mu.Lock()
	m.late[c.ID] = true
	m.mu.Unlock()
	<-ctx.Done()
	return driver.Ended(ctx, true)
}

func (m *slowRaise) Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	m.mu.Lock()
	if m.late[c.ID] {
		m.again = append(m.again, c.ID)
	}
	m.mu.Unlock()
	return m.member.Vote(ctx, c, least)
}

// A ticket that no majority confirmed may reach a node late. It does not become the ticket of a claim that a later attempt
// has won.
func TestLateTicketHitsNothing(t *testing.T) {
	t.Parallel()
	list := servers(3)
	list[0].last["late"] = 1 << 52 // so its ticket differs from the others'
	var (
		nodes   []quorum.Node
		members []*slowRaise
	)
	for i, s := range list {
		m := &slowRaise{member: &member{s.store.Driver(), s}, late: map[string]bool{}}
		members = append(members, m)
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("s", i), Driver: m})
	}
	d, err := quorum.New(t.Context(), nodes, &quorum.Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	c := claim("late", "claim")
	members[2].SetLink(memory.Refused)
	_, err = d.Enter(t.Context(), c)
	says(t, err, "the nodes did not agree on a ticket: node s1")
	members[2].SetLink(memory.Up)
	quorum.Rouse(quorum.Inner(d))
	holds(t, d, c)
	for i, m := range members {
		m.mu.Lock()
		if len(m.again) > 0 {
			t.Errorf("node %d was asked again for %q, of which it may hear a ticket late; want another id", i, m.again)
		}
		m.mu.Unlock()
	}
	leaves(t, d, c)
}

// However slow a node is, a reclaiming request does not reach it after a later run of the same owner has the lock.
func TestSlowReclaimTakesNothingFromALaterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, nodes := faulty(t, nil)
		defer d.Close()
		nodes[2].Inject(memory.Fault{Verb: memory.Enter, Before: time.Second})
		earlier, later := claim("reclaimed", "earlier"), claim("reclaimed", "later")
		for _, c := range []*driver.Claim{earlier, later} {
			c.Owner, c.Reclaim = "job", true
			holds(t, d, c)
		}
		pass(2 * time.Second)
		for i, n := range nodes {
			list, err := n.List(t.Context(), &driver.Query{Name: later.Name})
			if err != nil || len(list) != 1 || len(list[0].Claims) != 1 || list[0].Claims[0].Record != later.Record {
				t.Errorf("node %d has %+v, %v; want the later run alone", i, list, err)
			}
		}
	})
}
