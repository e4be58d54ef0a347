package quorum_test

import (
	"context"
	"github.com/stilelock/stile/internal/awake"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// votes returns how many votes each server was asked for.
func votes(list []*server) (all []int) {
	for _, s := range list {
		s.mu.Lock()
		all = append(all, s.votes)
		s.mu.Unlock()
	}
	return all
}

// asked returns the servers that got votes to give since then.
func asked(list []*server, before []int) (which []int) {
	for i, n := range votes(list) {
		if n > before[i] {
			which = append(which, i)
		}
	}
	return which
}

func awaits(t *testing.T, d driver.Driver, c *driver.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := d.Await(ctx, c); err != nil {
		t.Fatalf("await of %s = %v; want it told", c.ID, err)
	}
}

// waits enters a claim that has to wait.
func waits(t *testing.T, d driver.Driver, c *driver.Claim) {
	t.Helper()
	p, err := d.Enter(t.Context(), c)
	if err != nil || p.Holds || p.Ticket == 0 {
		t.Fatalf("enter of %s = %+v, %v; want it to wait", c.ID, p, err)
	}
	c.Ticket = p.Ticket
}

// lead makes a claim of b hear too late that a name is free, and returns the node that the claim asked.
func lead(t *testing.T, list []*server, a, b *quorum.Driver, name string) int {
	t.Helper()
	holder, waiter, quick := claim(name, "holder-before"), claim(name, "late"), claim(name, "quick")
	holds(t, a, holder)
	waits(t, b, waiter)
	leaves(t, a, holder)
	drained(t, list, name)
	awaits(t, b, waiter)
	holds(t, a, quick)
	settled(t, a, b)
	before := votes(list)
	waits(t, b, waiter)
	which := asked(list, before)
	if len(which) != 1 {
		t.Fatalf("servers %v were asked by a claim that is late; want one", which)
	}
	awaits(t, b, waiter) // it pauses for a moment, without a notification
	before = votes(list)
	waits(t, b, waiter)
	if again := asked(list, before); !slices.Equal(again, which) {
		t.Errorf("servers %v were asked when the moment is over; want %v", again, which)
	}
	leaves(t, a, quick)
	drained(t, list, name)
	awaits(t, b, waiter)
	before = votes(list)
	holds(t, b, waiter)
	if all := asked(list, before); len(all) < 3 {
		t.Errorf("servers %v were asked by a claim that holds; want a majority", all)
	}
	leaves(t, b, waiter)
	drained(t, list, name)
	return which[0]
}

// A claim that hears too late that a name is free asks one node, the same for all clients, and takes no votes from a quicker
// claim.
func TestLateClaimAsksOneNode(t *testing.T) {
	t.Parallel()
	list := servers(5)
	a, _ := open(t, list, nil)
	b, _ := open(t, list, nil)
	leads := map[int]bool{}
	for _, name := range []string{"one", "two", "three", "four", "five", "six"} {
		one, other := lead(t, list, a, b, name), lead(t, list, b, a, name)
		if one != other {
			t.Errorf("server %d leads for one client and %d for another", one, other)
		}
		leads[one] = true
	}
	if len(leads) < 2 {
		t.Error("one server leads for all names")
	}
}

// A claim that a dead client left behind on the lead does not keep the waiters until its lease runs out.
func TestLeadIsStuck(t *testing.T) {
	t.Parallel()
	list := servers(5)
	lane := awake.Lane(t)
	a, members := open(t, list, nil)
	b, _ := open(t, list, nil)
	leads := lead(t, list, a, b, "stuck")
	holder, waiter := claim("stuck", "holder"), claim("stuck", "waiter")
	holds(t, a, holder)
	settled(t, a)
	waits(t, b, waiter)
	for i, m := range members {
		if i != leads {
			leaves(t, m.now(), holder) // as if the client had died before it asked the last node
		}
	}
	since := time.Now()
	awaits(t, b, waiter)
	holds(t, b, waiter)
	lane.Within(time.Since(since), holder.TTL/2, "the waiter holds, and does not wait for the end of a lease of %v", holder.TTL)
	late := claim("stuck", "late")
	waits(t, b, late)
	leaves(t, b, waiter)
	awaits(t, b, late) // at another
	holds(t, b, late)
}

// settled waits until no request is under way.
func settled(t *testing.T, list ...*quorum.Driver) {
	t.Helper()
	for _, d := range list {
		for over := awake.For(time.Minute); !quorum.Settled(d); runtime.Gosched() {
			if awake.Over(over) {
				t.Fatal("nodes are asked without end")
			}
		}
	}
}

// A lead that does not answer, or cannot be reached, is left out.
func TestLeadIsDown(t *testing.T) {
	t.Parallel()
	for _, link := range []memory.Link{memory.Silent, memory.Refused, memory.Unnotified} {
		list := servers(3)
		a, _ := open(t, list, nil)
		b, members := open(t, list, nil)
		for i, m := range members {
			name := "down-" + list[i].report.ID
			holder, waiter := claim(name, "holder-of-"+name), claim(name, "waiter-of-"+name)
			holds(t, a, holder)
			waits(t, b, waiter)
			m.SetLink(link)
			leaves(t, a, holder)
			awaits(t, b, waiter)
			holds(t, b, waiter)
			leaves(t, b, waiter)
			if link == memory.Refused {
				settled(t, b) // or a late refusal would make the node rest again
			}
			m.SetLink(memory.Up)
			quorum.Rouse(b)
		}
	}
}
