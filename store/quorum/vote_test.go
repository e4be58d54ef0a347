package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// A restarted member that may have forgotten claims does not vote, from the first answer on its new connection.
func TestRestartedMemberDoesNotVote(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		list := servers(3)
		d, _ := open(t, list, nil)
		c := claim("restarted", "holder")
		holds(t, d, c)
		list[0].restart(keeps)
		list[1].restart(keeps)
		_, err := d.Enter(t.Context(), claim("other", "x"))
		if keeps && err != nil {
			t.Errorf("enter = %v with members that keep what they have; want nil", err)
		}
		if !keeps {
			says(t, err, "1 of 3 nodes take part, and a majority is 2: node s0: it does not vote: it was started a short while ago "+
				"and may have forgotten claims (it is a test), so not for another")
			if !driver.NotApplied(err) || !driver.IsUnreachable(err) {
				t.Errorf("enter = %v; want it refused for now", err)
			}
		}
	}
}

// A member whose clock was moved does not vote. A member whose clock drifts does.
func TestMovedClockDoesNotVote(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wrong time.Duration
		votes bool
	}{{0, true}, {200 * time.Millisecond, true}, {2 * time.Second, false}, {-2 * time.Second, false}} {
		list := servers(3)
		d, _ := open(t, list, nil)
		for _, s := range list[:2] {
			s.mu.Lock()
			s.wrong = test.wrong
			s.mu.Unlock()
		}
		quorum.Check(d)
		_, err := d.Enter(t.Context(), claim("moved", "x"))
		if test.votes && err != nil {
			t.Errorf("enter with clocks moved by %v = %v; want nil", test.wrong, err)
		}
		if !test.votes {
			says(t, err, "it does not vote: its clock was moved by")
		}
	}
}

// reports sets how long the reports of servers take, and by how much their clocks are wrong.
func reports(list []*server, slow, wrong time.Duration) {
	for _, s := range list {
		s.mu.Lock()
		s.slow, s.wrong = slow, wrong
		s.mu.Unlock()
	}
}

// A member that answers late has not moved its clock.
func TestSlowMemberVotes(t *testing.T) {
	t.Parallel()
	list := servers(3)
	reports(list, 800*time.Millisecond, 0)
	d, _ := open(t, list, nil)
	reports(list, 0, 0)
	quorum.Check(d)
	holds(t, d, claim("slow", "x"))
}

// A member that has moved its clock meanwhile is found out when it answers quickly again.
func TestSlowMemberHidesNothing(t *testing.T) {
	t.Parallel()
	list := servers(3)
	d, _ := open(t, list, nil)
	reports(list, 800*time.Millisecond, -400*time.Millisecond)
	quorum.Check(d)
	reports(list, 0, -400*time.Millisecond)
	quorum.Check(d)
	_, err := d.Enter(t.Context(), claim("slow", "x"))
	says(t, err, "it does not vote: its clock was moved by")
}

// Two members that turn out to be one server have one vote.
func TestTwinDoesNotVote(t *testing.T) {
	t.Parallel()
	list := servers(3)
	d, _ := open(t, list, nil)
	list[2].mu.Lock()
	list[2].report.ID = list[1].report.ID
	list[2].mu.Unlock()
	quorum.Check(d)
	holds(t, d, claim("twins", "x"))
	list[1].restart(false)
	_, err := d.Enter(t.Context(), claim("other", "y"))
	says(t, err, "1 of 3 nodes take part")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	node := func(name string) quorum.Node { return quorum.Node{Name: name, Driver: memory.New()} }
	for _, test := range []struct {
		nodes []quorum.Node
		want  string
	}{
		{nil, "a quorum needs at least 3 nodes, not 0: with fewer, none may be down"},
		{[]quorum.Node{node("a")}, "a quorum needs at least 3 nodes, not 1: with fewer, none may be down"},
		{
			[]quorum.Node{node("a"), node("b"), node("c"), node("d")},
			"a quorum needs an odd number of nodes, not 4: the last would only be one more that can fail",
		},
		{[]quorum.Node{node("a"), node("b"), node("a")}, "node a is named twice"},
	} {
		_, err := quorum.New(t.Context(), test.nodes, nil)
		if err == nil || err.Error() != test.want || !driver.NotApplied(err) {
			t.Errorf("new with %d nodes = %v; want %q", len(test.nodes), err, test.want)
		}
	}
	d := over(t, stores(3), nil)
	long := claim("long", "x")
	long.TTL = 2 * time.Minute
	if _, err := d.Enter(t.Context(), long); !driver.NotApplied(err) {
		t.Errorf("enter with a lease above MaxTTL = %v; want it refused", err)
	}
	short := claim("short", "x")
	holds(t, d, short)
	if err := d.Leave(t.Context(), &driver.Release{Claim: short, Keep: 2 * time.Minute}); !driver.NotApplied(err) {
		t.Errorf("leave with a keep above MaxTTL = %v; want it refused", err)
	}
	leaves(t, d, short)
}

// A ticket is used only when a majority knows it, even if only one member has seen the last one.
func TestTicketsAreAgreedOn(t *testing.T) {
	t.Parallel()
	list := servers(5)
	d, members := open(t, list, nil)
	last := int64(0)
	for i := range 50 {
		s := list[i%5]
		s.mu.Lock()
		s.last["agreed"] += int64(time.Hour) // an attempt that no majority saw
		s.mu.Unlock()
		members[(i+2)%5].SetLink(memory.Refused) // another majority each time
		c := claim("agreed", fmt.Sprint("c", i))
		if p := holds(t, d, c); p.Ticket <= last {
			t.Fatalf("ticket %d after %d; want it to rise", p.Ticket, last)
		}
		last = c.Ticket
		knows := 0
		for _, s := range list {
			s.mu.Lock()
			if s.last["agreed"] >= last {
				knows++
			}
			s.mu.Unlock()
		}
		if knows < 3 {
			t.Fatalf("%d of 5 members know ticket %d; want a majority", knows, last)
		}
		leaves(t, d, c)
		drained(t, list, "agreed") // the claim has left a majority, and is about to leave the rest
		members[(i+2)%5].SetLink(memory.Up)
		quorum.Rouse(d)
	}
}

// A node that gives a higher ticket too late does not change the ticket of a claim that was won without it.
func TestTicketStays(t *testing.T) {
	t.Parallel()
	list := servers(3)
	d, members := open(t, list, nil)
	_, late := open(t, list, nil)
	c := claim("stays", "x")
	members[2].SetLink(memory.Refused)
	was := holds(t, d, c)
	c.Ticket = 0 // as if the answer were lost
	list[2].mu.Lock()
	list[2].last["stays"] = was.Ticket + int64(time.Hour)
	list[2].mu.Unlock()
	if p, err := late[2].Vote(t.Context(), c, 0); err != nil || p.Ticket <= was.Ticket {
		t.Fatalf("late vote = %+v, %v; want a higher ticket than %d", p, err, was.Ticket)
	}
	members[2].SetLink(memory.Up)
	quorum.Rouse(d)
	members[0].SetLink(memory.Refused)
	var is driver.Place
	servertest.Until(t, "the other two take part", func() bool { // the node that refused at first may rest for a moment
		var err error
		is, err = d.Enter(t.Context(), c)
		return err == nil && is.Holds
	})
	if is.Ticket != was.Ticket {
		t.Errorf("ticket %d the second time; want %d", is.Ticket, was.Ticket)
	}
}

// Two nodes hear of the claim only from another client, later, and so give higher tickets. The claim has the ticket of the
// majority.
func TestTicketOfTheMajority(t *testing.T) {
	t.Parallel()
	list := servers(5)
	d, members := open(t, list, nil)
	other, _ := open(t, list, nil)
	c := claim("majority", "x")
	members[3].SetLink(memory.Refused)
	members[4].SetLink(memory.Refused)
	was := holds(t, d, c)
	c.Ticket = 0
	if is := holds(t, other, c); is.Ticket != was.Ticket {
		t.Errorf("ticket %d on another client; want %d", is.Ticket, was.Ticket)
	}
}

// A late request to leave, of an attempt that failed, does not take out the claim that a later attempt has won.
func TestLateDepartureHitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, drivers := faulty(t, &quorum.Options{Timeout: 100 * time.Millisecond})
		defer d.Close()
		c, inTheWay := claim("late", "waiter"), claim("late", "other")
		for _, n := range drivers[1:] {
			inTheWay.Ticket = 0
			holds(t, n.Store().Driver(), inTheWay)
		}
		drivers[0].Inject(memory.Fault{Verb: memory.Leave, Before: time.Second, Late: true})
		if p, err := d.Enter(t.Context(), c); err != nil || p.Holds {
			t.Fatalf("enter = %+v, %v; want it to wait", p, err)
		}
		leaves(t, drivers[1].Store().Driver(), inTheWay)
		holds(t, d, c)        // while a request to leave is on its way to one of the two
		pass(2 * time.Second) // the request arrives
		for i, n := range drivers[:2] {
			list, err := n.List(t.Context(), &driver.Query{Name: "late"})
			if err != nil || len(list) != 1 || list[0].Claims[0].Record != c.Record {
				t.Errorf("node %d has %+v, %v after a late departure; want the claim", i, list, err)
			}
		}
		leaves(t, drivers[2].Store().Driver(), inTheWay)
		leaves(t, d, c)
		pass(time.Second)
		for i, n := range drivers {
			if list, err := n.List(t.Context(), &driver.Query{Name: "late"}); err != nil || len(list) > 0 {
				t.Errorf("node %d has %+v, %v; want nothing", i, list, err)
			}
		}
	})
}

// A claim that waits for longer than late requests are remembered keeps its ids, however late these requests arrive.
func TestVeryLateDepartureHitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			drivers       []*memory.Driver
			nodes, others []quorum.Node
			inTheWay      = claim("late", "other")
		)
		inTheWay.TTL = time.Hour
		for i := range 3 {
			m := memory.New()
			drivers = append(drivers, m)
			nodes = append(nodes, quorum.Node{Name: fmt.Sprint("m", i), Driver: m})
			others = append(others, quorum.Node{Name: fmt.Sprint("m", i), Driver: m.Store().Driver()})
			if i > 0 {
				inTheWay.Ticket = 0
				holds(t, m.Store().Driver(), inTheWay)
			}
		}
		o := &quorum.Options{Timeout: 100 * time.Millisecond}
		d, err := quorum.New(t.Context(), nodes, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		other, err := quorum.New(t.Context(), others, o)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		c := claim("late", "waiter")
		drivers[0].Inject(memory.Fault{Verb: memory.Leave, Before: 3 * time.Minute, Late: true})
		begun := time.Now()
		for time.Since(begun) < 170*time.Second {
			if p, err := d.Enter(t.Context(), c); err != nil || p.Holds {
				t.Fatalf("enter after %v = %+v, %v; want it to wait", time.Since(begun), p, err)
			}
			pass(4 * time.Second)
		}
		leaves(t, drivers[1].Store().Driver(), inTheWay)
		holds(t, d, c) // on two of three
		pass(3*time.Minute + time.Second - time.Since(begun))
		leaves(t, drivers[2].Store().Driver(), inTheWay)
		if p, err := other.Enter(t.Context(), claim("late", "second")); err != nil || p.Holds {
			t.Errorf("another client enters with %+v, %v when the departure has arrived; want it to wait", p, err)
		}
		leaves(t, d, c)
	})
}

func pass(d time.Duration) { <-time.NewTimer(d).C }

// drained waits until no server has a claim.
func drained(t *testing.T, list []*server, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range list {
		for {
			got, err := s.store.Driver().List(ctx, &driver.Query{Name: name})
			if err != nil {
				t.Fatalf("a claim stays: %v", err)
			}
			if len(got) == 0 {
				break
			}
			runtime.Gosched()
		}
	}
}

// A node that refuses connections is not asked for each request, but soon again.
func TestUnreachableNodeRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, drivers := faulty(t, nil)
		defer d.Close()
		drivers[0].Inject(memory.Fault{Times: -1, Err: driver.Refused(driver.Unreachable(errors.New("nobody listens")))})
		for i := range 20 {
			c := claim("rests", fmt.Sprint("c", i))
			holds(t, d, c)
			leaves(t, d, c)
			synctest.Wait()
		}
		if n := drivers[0].Calls(memory.Enter) + drivers[0].Calls(memory.Leave); n != 1 {
			t.Errorf("the node was asked %d times by 20 locks at once; want 1", n)
		}
		drivers[0].Heal()
		pass(time.Second)
		c := claim("rests", "after")
		holds(t, d, c)
		synctest.Wait()
		if list, err := drivers[0].List(t.Context(), &driver.Query{Name: "rests"}); err != nil || len(list) != 1 {
			t.Errorf("the node has %+v, %v once it is back; want the claim", list, err)
		}
		leaves(t, d, c)
	})
}

// A slowVote is a member whose votes take a while.
type slowVote struct {
	*member
	takes time.Duration
}

func (m slowVote) Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	<-time.After(m.takes)
	return m.member.Vote(ctx, c, least)
}

// A claim that holds keeps its ticket when it enters again by another client, for which one node of the majority is slow.
func TestSlowMemberKnowsTheTicket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := servers(5)
		first, members := open(t, list, nil)
		for _, m := range members[3:] {
			m.SetLink(memory.Refused)
		}
		c := claim("slow", "claim")
		was := holds(t, first, c)
		var nodes []quorum.Node
		for i, s := range list {
			m := &member{s.store.Driver(), s}
			nodes = append(nodes, quorum.Node{Name: fmt.Sprint("s", i), Driver: m})
			if i == 0 {
				nodes[i].Driver = slowVote{m, time.Second}
			}
		}
		second, err := quorum.New(t.Context(), nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Ticket = 0
		if is := holds(t, second, c); is.Ticket != was.Ticket {
			t.Errorf("the ticket is %d by another client; want %d", is.Ticket, was.Ticket)
		}
		leaves(t, first, c)
		first.Close()
		second.Close()
	})
}
