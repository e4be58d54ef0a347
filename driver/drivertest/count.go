package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

// The cases of a name's own count of permits.
var countCases = []Case{
	{"CountLack", "A driver that keeps no counts refuses a claim of capacity 0 and a change of a count, and changes nothing.", 0, countLack},
	{"CountNone", "A name that has no count lets no claim of capacity 0 enter: the error is a refusal that says so.", 0, countNone},
	{"CountHolds", "A claim that waits holds once its permits, with those that are held, are at most the count.", 0, countHolds},
	{"CountRaised", "A claim that waits is woken when the count rises.", 0, countRaised},
	{"CountLowered", "A claim that holds goes on holding, whatever the count becomes.", 0, countLowered},
	{"CountOfNothing", "A count of 0 lets claims enter and none hold, until it rises.", 0, countOfNothing},
	{"CountTooLow", "A claim of more permits than the count waits, and so do those behind it.", 0, countTooLow},
	{"CountBesideNumber", "A claim of capacity 0 and one that says a number exclude each other, unless the number is the count.",
		0, countBesideNumber},
	{"CountKept", "With Keep, a claim that holds stays that long, also when the count has become lower.", 0, countKept},
	{"CountListed", "A listing tells that its capacity is the name's own count, and the record of the change that made it so.", 0, countListed},
	{"CountOutside", "A count is from 0 to MaxCount; any other is refused, and the count stays.", 0, countOutside},
}

// counted is a claim of some permits of as many as the name has.
func (r *run) counted(permits int64) *driver.Claim {
	c := r.claim()
	c.Weight, c.Capacity = permits, 0
	return c
}

// setCount changes the name's own count.
func (r *run) setCount(n int64, record string) error {
	r.Helper()
	breaker, ok := r.b.(driver.Breaker)
	if !ok {
		r.Fatalf("the traits have counts, and nothing changes them: %T is no Breaker", r.b)
	}
	_, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Count: &n, Record: record})
	return err
}

// counts changes the name's own count, and reports whether the store keeps any.
func (r *run) counts(n int64) bool {
	r.Helper()
	if !r.traits.Counts {
		return false
	}
	if err := r.setCount(n, ""); err != nil {
		r.Fatalf("the count becomes %d: %v; want nil", n, err)
	}
	return true
}

func countLack(r *run) {
	if r.traits.Counts {
		return
	}
	for _, try := range []bool{false, true} {
		c := r.counted(1)
		c.Try = try
		_, err := r.a.Enter(r.ctx, c)
		r.uncounted(fmt.Sprintf("enter with capacity 0 and try %v", try), err)
	}
	holder := r.claim()
	r.holds(r.a, holder)
	for _, ask := range []bool{false, true} {
		breaker, ok := r.b.(driver.Breaker)
		if !ok {
			break
		}
		count := int64(1)
		_, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ask: ask, Count: &count})
		r.uncounted("break with a count", err)
	}
	if a := r.renew(r.a, holder); a.Err != nil {
		r.Errorf("renewal of the holder = %v; want nil", a.Err)
	}
	r.leave(r.a, holder)
}

// uncounted checks that a request was refused for want of a count.
func (r *run) uncounted(what string, err error) {
	r.Helper()
	if !errors.Is(err, driver.ErrUnsupported) {
		r.Errorf("%s = %v; want ErrUnsupported, as the traits lack counts", what, err)
	}
}

func countNone(r *run) {
	if !r.traits.Counts {
		return
	}
	for _, try := range []bool{false, true} {
		c := r.counted(1)
		c.Try = try
		p, err := r.a.Enter(r.ctx, c)
		if driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) {
			r.Errorf("enter with try %v = %+v, %v (%v); want a refusal for good", try, p, err, driver.OutcomeOf(err))
		}
	}
	r.counts(1) // nothing was left behind that would be before this
	r.holds(r.b, r.counted(1))
}

func countHolds(r *run) {
	if !r.counts(4) {
		return
	}
	first, second, third, try := r.counted(2), r.counted(2), r.counted(1), r.counted(1)
	first.Ticket = r.holds(r.a, first).Ticket
	second.Ticket = r.holds(r.b, second).Ticket
	third.Ticket = r.waits(r.a, third).Ticket
	if try.Try = true; r.waits(r.b, try).Ticket != 0 {
		r.Errorf("a try entered beyond the count")
	}
	if first.Ticket >= second.Ticket || second.Ticket >= third.Ticket {
		r.Errorf("tickets are %d, %d and %d; want them to rise", first.Ticket, second.Ticket, third.Ticket)
	}
	r.leave(r.a, first)
	r.comes(r.a, third)
	r.holds(r.b, try)
}

// comes waits for a claim to hold, for not much longer than the store may take to wake it.
func (r *run) comes(d driver.Driver, c *driver.Claim) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, r.store.Wake+r.store.Slack+time.Second)
	defer cancel()
	if _, err := r.turn(ctx, d, c); err != nil {
		r.Fatalf("a claim that should come to hold: %v", err)
	}
}

func countRaised(r *run) {
	if !r.counts(1) {
		return
	}
	holder, waiters := r.counted(1), []*driver.Claim{r.counted(1), r.counted(2), r.counted(1)}
	r.holds(r.a, holder)
	for i, c := range waiters {
		c.Ticket = r.waits([]driver.Driver{r.a, r.b}[i%2], c).Ticket
	}
	woken := make(chan error, 1)
	go func() {
		_, err := r.a.Await(r.ctx, waiters[0])
		woken <- err
	}()
	r.counts(4)
	select {
	case err := <-woken:
		if err != nil {
			r.Errorf("await = %v; want nil", err)
		}
	case <-awake.For(r.store.Wake + r.store.Slack):
		r.Fatalf("the waiter was not woken within %v", r.store.Wake+r.store.Slack)
	}
	r.comes(r.a, waiters[0])
	r.comes(r.b, waiters[1])
	r.waits(r.a, waiters[2])
	r.leave(r.a, holder)
	r.comes(r.a, waiters[2])
}

func countLowered(r *run) {
	if !r.counts(3) {
		return
	}
	var holders []*driver.Claim
	for range 3 {
		c := r.counted(1)
		c.Ticket = r.holds(r.a, c).Ticket
		holders = append(holders, c)
	}
	waiter := r.counted(1)
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	r.counts(1)
	for i, c := range holders {
		if a := r.renew(r.a, c); a.Err != nil || a.TTL < c.TTL/4 && !r.traits.InSession {
			r.Errorf("renewal of holder %d after the count fell = %+v; want its lease anew", i, a)
		}
		if p := r.enter(r.a, c); !p.Holds || p.Ticket != c.Ticket {
			r.Errorf("enter of holder %d after the count fell = %+v; want it to hold with ticket %d", i, p, c.Ticket)
		}
	}
	if lister, ok := r.b.(driver.Lister); ok {
		list, err := lister.List(r.ctx, &driver.Query{Name: r.name})
		if err != nil || len(list) != 1 || len(list[0].Claims) != 4 || !list[0].Claims[2].Holds || list[0].Claims[3].Holds {
			r.Errorf("list = %+v, %v; want three that hold, and one that waits", list, err)
		}
	}
	for _, c := range holders {
		r.waits(r.b, waiter)
		r.leave(r.a, c)
	}
	r.comes(r.b, waiter)
}

func countOfNothing(r *run) {
	if !r.counts(0) {
		return
	}
	waiter, try := r.counted(1), r.counted(1)
	waiter.Ticket = r.waits(r.a, waiter).Ticket
	if try.Try = true; r.waits(r.b, try).Ticket != 0 {
		r.Errorf("a try entered where there are no permits")
	}
	r.counts(1)
	r.comes(r.a, waiter)
	r.counts(0)
	r.leave(r.a, waiter)
	next := r.counted(1)
	next.Ticket = r.waits(r.b, next).Ticket
	r.leave(r.b, next)
}

func countTooLow(r *run) {
	if !r.counts(2) {
		return
	}
	large, small := r.counted(3), r.counted(1)
	large.Ticket = r.waits(r.a, large).Ticket
	small.Ticket = r.waits(r.b, small).Ticket
	r.counts(3)
	r.comes(r.a, large)
	r.waits(r.b, small)
	r.leave(r.a, large)
	r.comes(r.b, small)
}

func countBesideNumber(r *run) {
	if !r.counts(3) {
		return
	}
	capacity := func(what string, c *driver.Claim) {
		r.Helper()
		if p, err := r.b.Enter(r.ctx, c); !errors.As(err, new(*driver.CapacityError)) {
			r.Errorf("%s = %+v, %v; want a CapacityError", what, p, err)
		}
	}
	own := r.counted(1)
	r.holds(r.a, own)
	capacity("enter of a mutex", r.claim())
	capacity("enter with another number", r.permit(1, 4))
	number := r.permit(2, 3)
	r.holds(r.b, number)
	r.counts(2)
	capacity("enter by the count, which is not the number any more, beside the number", r.counted(1))
	r.leave(r.a, own)
	r.leave(r.b, number)
	r.holds(r.a, r.counted(2))
}

func countKept(r *run) {
	if !r.counts(2) {
		return
	}
	first, second, next := r.counted(1), r.counted(1), r.counted(1)
	r.holds(r.a, first)
	r.holds(r.a, second)
	r.counts(1)
	if err := r.a.Leave(r.ctx, &driver.Release{Claim: second, Keep: time.Minute}); err != nil {
		r.Fatalf("leave with keep = %v; want nil", err)
	}
	r.leave(r.a, first)
	r.waits(r.b, next)
	r.counts(2)
	r.comes(r.b, next)
}

func countListed(r *run) {
	lister, ok := r.a.(driver.Lister)
	if !ok || !r.counts(2) {
		return
	}
	is := func(what string, counted bool, capacity int64, record string, claims int) {
		r.Helper()
		list, err := lister.List(r.ctx, &driver.Query{Name: r.name, Count: true})
		if err != nil || len(list) != 1 || list[0].Counted != counted || list[0].Capacity != capacity || list[0].Record != record ||
			len(list[0].Claims) != claims {
			r.Errorf("list %s = %+v, %v; want a count: %v, capacity %d, record %q, %d claims", what, list, err, counted, capacity, record, claims)
		}
	}
	is("without claims", true, 2, "", 0)
	if err := r.setCount(5, "ann, for more"); err != nil {
		r.Fatalf("the count becomes 5: %v", err)
	}
	is("after a change", true, 5, "ann, for more", 0)
	r.holds(r.a, r.counted(1))
	is("with a claim", true, 5, "ann, for more", 1)
	r.counts(4)
	is("after a change without a record", true, 4, "", 1)
	if list, err := lister.List(r.ctx, &driver.Query{Prefix: r.name}); err != nil || len(list) != 1 || !list[0].Counted || list[0].Capacity != 4 {
		r.Errorf("list of the prefix = %+v, %v; want the count, 4", list, err)
	}
}

func countOutside(r *run) {
	if !r.counts(driver.MaxCount) {
		return
	}
	for _, n := range []int64{-1, driver.All, 1 << 40} {
		if err := r.setCount(n, ""); driver.OutcomeOf(err) != driver.OutcomeRefused {
			r.Errorf("the count becomes %d: %v; want a refusal", n, err)
		}
	}
	r.holds(r.a, r.counted(2))
}
