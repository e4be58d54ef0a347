package drivertest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// The cases of a driver that can be observed. They call only the interfaces that the driver implements.
var observerCases = []Case{
	{"List", "A listing is the queue of one name as an observer sees it, in ticket order.", ordered | shared, list},
	{"ListKept", "A listing shows a claim that was released, and is kept for a while.", 0, listKept},
	{"ListDelay", "The lease left is negative while only the lock-delay keeps others out.", delay, listDelay},
	{"ListSince", "The time since a claim entered goes on when the claim comes to hold.", ordered, listSince},
	{"ListPrefix", "Names come in order of their bytes; a name without claims is left out.", 0, listPrefix},
	{"ListHeard", "A List of a prefix says of each part of the answer that it was Heard.", 0, listHeard},
	{"Break", "Break removes the claim with this ticket, and returns it as it stood.", ordered, breakTicket},
	{"BreakHead", "Break removes the claim at the head if ticket is 0.", ordered, breakHead},
	{"BreakWaiter", "A claim that waited and was removed never holds, whoever is removed after it.", ordered, breakWaiter},
	{"BreakGone", "The error of Break is ErrGone if there is none.", 0, breakGone},
	{"Watch", "Watch calls changed once when the watch stands, and then after every change of the queue.", 0, watch},
	{"WatchContext", "Watch goes on until ctx ends, whose error it returns.", 0, watchContext},
	{"WatchClose", "Close ends every call.", 0, watchClose},
}

func list(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	reader, writer, last := r.shared(), r.claim(), r.shared()
	reader.Record, writer.Record = "reader", "writer"
	for _, c := range []*driver.Claim{reader, writer, last} {
		c.Ticket = r.enter(r.a, c).Ticket
	}
	got, err := lister.List(r.ctx, &driver.Query{Name: r.name})
	if err != nil || len(got) != 1 || len(got[0].Claims) != 3 {
		r.Fatalf("list = %+v, %v; want one name with 3 claims", got, err)
	}
	if got[0].Name != r.name || got[0].Capacity != driver.All {
		r.Errorf("list = %q with capacity %d; want %q with %d", got[0].Name, got[0].Capacity, r.name, driver.All)
	}
	for i, c := range []*driver.Claim{reader, writer, last} {
		s := got[0].Claims[i]
		want := driver.ClaimInfo{
			Ticket: c.Ticket, Weight: c.Weight, Holds: i == 0, Record: c.Record,
			Since: s.Since, Remaining: s.Remaining, Principal: s.Principal,
		}
		if s != want {
			r.Errorf("claim %d = %+v; want %+v", i, s, want)
		}
		untold := s.Remaining == 0 && r.traits.Clock == "session"
		if s.Since < 0 || s.Since > time.Minute || !untold && (s.Remaining < time.Minute || s.Remaining > c.TTL) {
			r.Errorf("claim %d entered %v ago and has %v left; want about 0 and %v", i, s.Since, s.Remaining, c.TTL)
		}
	}
}

func listKept(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	r.leaveKept(r.a, c, time.Minute)
	s := r.listed(lister, c.Ticket)
	untold := s.Remaining == 0 && r.traits.Clock == "session"
	if !s.Left || !untold && (s.Remaining <= 0 || s.Remaining > time.Minute) {
		r.Errorf("list = %+v; want a claim that left, with at most a minute", s)
	}
}

func listDelay(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok || r.traits.Clock == "session" { // a claim ends with its session, and the lock-delay is kept elsewhere
		return
	}
	c, _ := r.delayed(time.Minute)
	r.ends(r.runsOut(), "the lease left is negative", func() bool {
		return r.listed(lister, c.Ticket).Remaining < 0
	})
}

// age is the time after which a claim is listed again: a time that began anew would be much shorter.
const age = 300 * time.Millisecond

// aged waits until an observer sees that a claim entered a while ago.
func (r *run) aged(lister driver.Lister, c *driver.Claim) {
	r.Helper()
	r.until(time.Minute, "the claim entered a while ago", func() bool { return r.listed(lister, c.Ticket).Since > age })
}

// stayed fails if an observer sees that an aged claim entered just now.
func (r *run) stayed(lister driver.Lister, c *driver.Claim, what string) {
	r.Helper()
	if since := r.listed(lister, c.Ticket).Since; since < age/2 { // a store's nodes may differ by some of the time
		r.Errorf("%s, a claim entered %v ago; want more than %v", what, since, age)
	}
}

func listSince(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	first, second, third := r.claim(), r.claim(), r.claim()
	first.Ticket = r.holds(r.a, first).Ticket
	for _, c := range []*driver.Claim{second, third} {
		c.Ticket = r.waits(r.a, c).Ticket
	}
	r.aged(lister, third)
	last := first
	for _, c := range []*driver.Claim{second, third} {
		r.leave(r.a, last)
		if _, err := r.turn(r.ctx, r.a, c); err != nil {
			r.Fatalf("enter = %v; want it to hold", err)
		}
		r.stayed(lister, c, "when it comes to hold")
		last = c
	}
	r.leave(r.a, last)
}

func listPrefix(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	var want []string
	for _, suffix := range []string{"", "a", "a/b", "aB", "a%c", "a_c", "axc", "a*", "z", "é"} {
		c := r.claim()
		c.Name += suffix
		r.holds(r.a, c)
		want = append(want, c.Name)
	}
	left := r.claim()
	left.Name += "left"
	r.holds(r.a, left)
	r.leave(r.a, left)
	slices.Sort(want)
	for prefix, names := range map[string][]string{
		r.name:         want,
		r.name + "a%":  {r.name + "a%c"},
		r.name + "a_":  {r.name + "a_c"},
		r.name + "a*":  {r.name + "a*"},
		r.name + "A":   nil,
		r.name + "zz":  nil,
		r.name + "a/b": {r.name + "a/b"},
	} {
		list, err := lister.List(r.ctx, &driver.Query{Prefix: prefix})
		if err != nil {
			r.Fatalf("list of prefix %q: %v", prefix, err)
		}
		var got []string
		for _, l := range list {
			got = append(got, l.Name)
		}
		if !slices.Equal(got, names) {
			r.Errorf("list of prefix %q = %q; want %q", prefix, got, names)
		}
	}
	if got, err := lister.List(r.ctx, &driver.Query{Name: left.Name}); err != nil || len(got) != 0 {
		r.Errorf("list of a name without claims = %+v, %v; want nothing", got, err)
	}
}

func listHeard(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	c := r.claim()
	r.holds(r.a, c)
	var sum atomic.Int64
	list, err := lister.List(driver.WhenHeard(r.ctx, func(n int) { sum.Add(int64(n)) }), &driver.Query{Prefix: c.Name})
	if err != nil || len(list) != 1 || sum.Load() < 1 {
		r.Errorf("list = %+v, %v, with %d keys or rows heard of; want one name, and that at least", list, err, sum.Load())
	}
}

func breakTicket(r *run) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok {
		return
	}
	holder, waiter, third := r.claim(), r.claim(), r.claim()
	waiter.Record = "the waiter"
	r.holds(r.a, holder)
	waiter.Ticket = r.waits(r.a, waiter).Ticket
	r.waits(r.a, third)
	s, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ticket: waiter.Ticket})
	if err != nil || s.Ticket != waiter.Ticket || s.Record != waiter.Record || s.Holds || s.Weight != waiter.Weight {
		r.Errorf("break = %+v, %v; want ticket %d as it waited", s, err, waiter.Ticket)
	}
	r.gone("renewal of the broken claim", r.renew(r.a, waiter).Err)
	_, err = r.a.Enter(r.ctx, waiter)
	r.gone("enter of the broken claim", err)
	if p := r.waits(r.a, third); p.Ahead != 1 {
		r.Errorf("the claim behind it has %d ahead; want 1", p.Ahead)
	}
}

func breakHead(r *run) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok {
		return
	}
	holder, waiter := r.claim(), r.claim()
	holder.Delay = r.delay(time.Minute) // not after a break
	ticket := r.holds(r.a, holder).Ticket
	waiter.Ticket = r.waits(r.a, waiter).Ticket
	ch := r.awaiting(r.a, waiter)
	w := r.waking(r.store.Wake)
	s, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name})
	if err != nil || s.Ticket != ticket || !s.Holds {
		r.Errorf("break = %+v, %v; want ticket %d as it held", s, err, ticket)
	}
	r.woken(ch, w)
	r.gone("renewal of the broken claim", r.renew(r.a, holder).Err)
}

// breakWaiter removes a waiting claim and then the claim before it. A watch must report both changes before the waiting
// claim's client asks.
func breakWaiter(r *run) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok {
		return
	}
	holder, waiter, third := r.claim(), r.claim(), r.claim()
	holder.Ticket = r.holds(r.b, holder).Ticket
	waiter.Ticket = r.waits(r.a, waiter).Ticket
	third.Ticket = r.waits(r.a, third).Ticket
	ctx, cancel := context.WithTimeout(r.ctx, afterward)
	defer cancel()
	if p, err := r.turn(ctx, r.a, waiter); err == nil {
		r.Fatalf("a claim behind a holder = %+v; want it to wait", p)
	}
	for _, c := range []*driver.Claim{waiter, holder} {
		if _, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ticket: c.Ticket}); err != nil {
			r.Fatalf("break = %v; want nil", err)
		}
	}
	r.until(r.store.Slack, "the claim behind both holds", func() bool { return r.enter(r.a, third).Holds })
	late, cancel := context.WithTimeout(r.ctx, heldUp)
	defer cancel()
	if p, _ := r.a.Await(late, waiter); p.Holds {
		r.Errorf("await of the broken claim = %+v; want no place that holds", p)
	}
	_, err := r.a.Enter(r.ctx, waiter)
	r.gone("enter of the broken claim", err)
	r.leave(r.a, third)
	if !r.soon(r.free) {
		r.Errorf("the name is taken; want nothing of the claim that was removed")
	}
}

func breakGone(r *run) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok {
		return
	}
	_, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name})
	r.gone("break of a name without claims", err)
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	_, err = breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ticket: c.Ticket + 1})
	r.gone("break of a ticket that nobody has", err)
	if a := r.renew(r.a, c); a.Err != nil {
		r.Errorf("renewal of the holder = %v; want nil", a.Err)
	}
}
