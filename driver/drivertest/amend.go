package drivertest

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
)

// The cases of a driver that can change a claim where it stands.
var amendCases = []Case{
	{"AmendDowngrade", "A writer that becomes a reader lets the readers behind it hold, who are woken, and no writer.",
		amends | shared | ordered, amendDowngrade},
	{"AmendNobodyBetween", "A claim is amended in one step: while a writer becomes a reader, no other writer ever holds.",
		amends | shared, amendNobodyBetween},
	{"AmendPermits", "The weight that a claim gives up is there for those behind it.", amends | permits | ordered,
		amendPermits},
	{"AmendStays", "An amended claim keeps its ticket, its place and its lease.", amends | shared, amendStays},
	{"AmendSince", "The time since a claim entered goes on when the claim is amended.", amends, amendSince},
	{"AmendTwice", "An amendment may be repeated: a claim that is so already is renewed only.", amends | shared,
		amendTwice},
	{"AmendHeavier", "A weight only falls: a reader does not become a writer.", amends | shared, amendHeavier},
	{"AmendWaiter", "A claim that waits is not amended.", amends | shared | ordered, amendWaiter},
	{"AmendGone", "A claim that is not there gets ErrGone, and an amendment does not bring it back.", amends, amendGone},
	{"AmendRecord", "An amended record is what observers see.", amends, amendRecord},
	{"AmendAnotherRecord", "A record is replaced if it is the one that the caller knows; if not, the error says which it is.",
		amends, amendAnotherRecord},
	{"AmendResumed", "Who knows a claim's id and ticket renews and amends it in another process, and is told its record.",
		amends, amendResumed},
	{"AmendBatch", "One claim's amendment, or its refusal, does not touch another's lease.", amends, amendBatch},
	{"AmendLateForNext", "An amendment that arrives after the client's own next claim of that name does not touch that claim.",
		amends | shared, amendLateForNext},
	{"AmendLateRecord", "An amendment that arrives after a later one is not applied.", amends, amendLateRecord},
}

// unamended checks that a driver that lacks the power says so, and renews the claim without it.
func (r *run) unamended() {
	r.Helper()
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	if err := r.amend(r.a, c, driver.Amendment{Record: "another"}); !errors.Is(err, driver.ErrUnsupported) {
		r.Errorf("renewal with an amendment = %v; want ErrUnsupported, as the traits lack it", err)
	}
	if err := r.renew(r.a, c).Err; err != nil {
		r.Errorf("renewal without it = %v; want nil", err)
	}
	r.leave(r.a, c)
}

// amend renews a claim with an amendment, and returns the error of the renewal.
func (r *run) amend(d driver.Driver, c *driver.Claim, a driver.Amendment) error {
	r.Helper()
	claim := *c
	claim.Amend = &a
	return r.renew(d, &claim).Err
}

// amended makes an amendment, which must succeed, and returns the amended claim.
func (r *run) amended(d driver.Driver, c *driver.Claim, a driver.Amendment) *driver.Claim {
	r.Helper()
	if err := r.amend(d, c, a); err != nil {
		r.Fatalf("amendment %+v = %v; want nil", a, err)
	}
	claim := *c
	if a.Weight != 0 {
		claim.Weight = a.Weight
	}
	if a.Record != "" {
		claim.Record = a.Record
	}
	return &claim
}

// rejected fails unless an amendment was refused for good, by an error that does not say that the claim is gone.
func (r *run) rejected(what string, err error) {
	r.Helper()
	if err == nil || driver.OutcomeOf(err) != driver.OutcomeRefused || errors.Is(err, driver.ErrGone) {
		r.Errorf("%s = %v; want a refusal, and not ErrGone", what, err)
	}
}

// reader is an amendment that makes a writer a reader.
var reader = driver.Amendment{Weight: 1}

func amendDowngrade(r *run) {
	first, second, third, writer, last := r.claim(), r.shared(), r.shared(), r.claim(), r.shared()
	first.Ticket = r.holds(r.a, first).Ticket
	for _, c := range []*driver.Claim{second, third, writer, last} {
		c.Ticket = r.waits(r.b, c).Ticket
	}
	woken := []<-chan told{r.awaiting(r.b, second), r.awaiting(r.b, third)}
	for range 10 {
		poll(r.ctx) // so that, mostly, they are inside Await
	}
	w := r.waking(r.store.Wake)
	first = r.amended(r.a, first, reader)
	for _, ch := range woken {
		r.woken(ch, w)
	}
	r.waits(r.b, writer)
	r.waits(r.b, last)
	r.leave(r.b, second)
	r.leave(r.a, first)
	r.waits(r.b, writer)
	r.leave(r.b, third)
	r.holds(r.b, writer)
	r.waits(r.b, last)
	r.leave(r.b, writer)
	r.holds(r.b, last)
}

func amendNobodyBetween(r *run) {
	for range 5 {
		first, stop, tried := r.claim(), make(chan struct{}), make(chan int)
		first.Ticket = r.holds(r.a, first).Ticket
		ctx, cancel := context.WithCancel(r.ctx)
		tries := make(chan struct{})
		go func() {
			held := 0
			for n := 0; ; n++ {
				if n == 1 {
					close(tries)
				}
				select {
				case <-stop:
					tried <- held
					return
				default:
				}
				c := r.claim()
				c.Try = true
				if p, err := r.b.Enter(ctx, c); err == nil && p.Holds {
					held++
					_ = r.b.Leave(r.ctx, &driver.Release{Claim: c})
				}
			}
		}()
		<-tries
		first = r.amended(r.a, first, reader)
		poll(r.ctx)
		close(stop)
		if held := <-tried; held > 0 {
			r.Errorf("another writer held %d times; want never", held)
		}
		cancel()
		r.leave(r.a, first)
	}
}

func amendPermits(r *run) {
	first, second, third := r.permit(3, 3), r.permit(1, 3), r.permit(2, 3)
	first.Ticket = r.holds(r.a, first).Ticket
	second.Ticket = r.waits(r.b, second).Ticket
	third.Ticket = r.waits(r.b, third).Ticket
	first = r.amended(r.a, first, driver.Amendment{Weight: 2})
	r.holds(r.b, second)
	r.waits(r.b, third)
	first = r.amended(r.a, first, driver.Amendment{Weight: 1})
	r.waits(r.b, third)
	r.leave(r.b, second)
	r.holds(r.b, third)
	r.leave(r.a, first)
	r.leave(r.b, third)
}

func amendStays(r *run) {
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	long := r.renew(r.a, c).TTL / 2
	amended := *c
	amended.Amend = &driver.Amendment{Weight: 1, Record: "another"}
	if a := r.renew(r.a, &amended); a.Err != nil || a.TTL < long || a.TTL > c.TTL {
		r.Errorf("amendment = %+v; want a lease of more than %v and at most %v", a, long, c.TTL)
	}
	c.Weight, c.Record = 1, "another"
	if p := r.holds(r.a, c); p.Ticket != c.Ticket || p.Ahead != 0 {
		r.Errorf("the amended claim = %+v; want ticket %d at the head", p, c.Ticket)
	}
	if r.free() {
		r.Errorf("the lock is free for a writer; want a reader in the way")
	}
	r.leave(r.a, c)
	r.gone("renewal after leave", r.renew(r.a, c).Err)
}

func amendSince(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	r.aged(lister, c)
	c = r.amended(r.a, c, driver.Amendment{Record: "another"})
	r.stayed(lister, c, "with another record")
	if len(r.traits.Lacks(driver.TraitReaders)) == 0 {
		c = r.amended(r.a, c, reader)
		r.stayed(lister, c, "as a reader")
	}
	r.leave(r.a, c)
}

func amendTwice(r *run) {
	c := r.claim()
	c.Record = "first"
	c.Ticket = r.holds(r.a, c).Ticket
	both := driver.Amendment{Weight: 1, Record: "second"}
	r.amended(r.a, c, both)
	amended := r.amended(r.a, c, both) // the claim is unchanged for a client that lost the answer
	other := r.shared()
	r.holds(r.b, other)
	r.amended(r.a, c, both)
	r.holds(r.b, other)
	r.leave(r.b, other)
	r.leave(r.a, amended)
	if !r.soon(r.free) {
		r.Errorf("the name is taken after all claims have left")
	}
}

func amendHeavier(r *run) {
	c := r.shared()
	c.Ticket = r.holds(r.a, c).Ticket
	r.rejected("amendment of a reader to a writer", r.amend(r.a, c, driver.Amendment{Weight: driver.All}))
	other := r.shared()
	r.holds(r.b, other)
	r.leave(r.b, other)
	// A writer's own amendment from before it became a reader is without effect too.
	before := *c
	before.Weight = driver.All
	r.amended(r.a, &before, driver.Amendment{Weight: driver.All})
	another := r.shared()
	r.holds(r.b, another)
	r.leave(r.b, another)
	r.leave(r.a, c)
}

func amendWaiter(r *run) {
	holder, waiter := r.shared(), r.claim()
	r.holds(r.a, holder)
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	r.rejected("amendment of a claim that waits", r.amend(r.b, waiter, reader))
	r.waits(r.b, waiter)
	r.leave(r.a, holder)
	r.holds(r.b, waiter)
	if r.free() {
		r.Errorf("the lock is free; want the waiter to hold it as a writer")
	}
	r.leave(r.b, waiter)
}

func amendGone(r *run) {
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	r.leave(r.a, c)
	r.gone("amendment of a claim that left", r.amend(r.a, c, driver.Amendment{Record: "another"}))
	r.gone("amendment of a claim that never entered", r.amend(r.a, r.claim(), driver.Amendment{Record: "another"}))
	if !r.soon(r.free) {
		r.Errorf("the name is taken; want nothing of the claim that left")
	}
}

func amendRecord(r *run) {
	c, try := r.claim(), r.claim()
	c.Record, try.Try = "first", true
	c.Ticket = r.holds(r.a, c).Ticket
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	w, watches := r.watch(ctx, r.b)
	if watches {
		w.told("its beginning", r.store.Wake+r.store.Slack)
	}
	c = r.amended(r.a, c, driver.Amendment{Record: "second"})
	if watches {
		w.told("an amendment", r.store.Wake+r.store.Slack)
		cancel()
		w.waitEnd(context.Canceled)
	}
	if b := r.waits(r.b, try).Blocker; b.Ticket != 0 && b.Record != "second" {
		r.Errorf("the blocker's record is %q; want %q", b.Record, "second")
	}
	if lister, ok := r.b.(driver.Lister); ok {
		if s := r.listed(lister, c.Ticket); s.Record != "second" || s.Weight != driver.All {
			r.Errorf("the claim is listed as %+v; want a writer with record %q", s, "second")
		}
	}
	c = r.amended(r.a, c, driver.Amendment{Record: `{"value":"é \"x\"\n"}`})
	if lister, ok := r.b.(driver.Lister); ok {
		if s := r.listed(lister, c.Ticket); s.Record != c.Record && !r.traits.ShortRecord {
			r.Errorf("the listed record is %q; want %q", s.Record, c.Record)
		}
	}
	r.leave(r.a, c)
}

func amendAnotherRecord(r *run) {
	c := r.claim()
	c.Record = "first"
	c.Ticket = r.holds(r.a, c).Ticket
	unknown := *c
	unknown.Record = "what it never was"
	err := r.amend(r.a, &unknown, driver.Amendment{Record: "second"})
	is, ok := errors.AsType[*driver.RecordError](err)
	if !ok || is.Have != "first" {
		r.Fatalf("amendment of another record = %v (%+v); want a RecordError with %q", err, is, "first")
	}
	r.rejected("amendment of another record", err)
	unknown.Record = is.Have
	r.leave(r.a, r.amended(r.a, &unknown, driver.Amendment{Record: "second"}))
}

func amendResumed(r *run) {
	c := r.claim()
	c.Record = "first"
	c.Ticket = r.holds(r.a, c).Ticket
	c = r.amended(r.a, c, driver.Amendment{Record: "second"})
	resumed := *c
	resumed.Record, resumed.Wait = "", c.TTL // as a client has it that attaches a claim
	for range 2 {
		if err := r.renew(r.b, &resumed).Err; err != nil {
			r.Fatalf("renewal by another client = %v; want nil", err)
		}
	}
	err := r.amend(r.b, &resumed, driver.Amendment{Record: "third"})
	is, ok := errors.AsType[*driver.RecordError](err)
	if !ok || is.Have != "second" {
		r.Fatalf("amendment of an unknown record = %v (%+v); want a RecordError with %q", err, is, "second")
	}
	resumed.Record = is.Have
	resumed = *r.amended(r.b, &resumed, driver.Amendment{Record: "third"})
	try := r.claim()
	try.Try = true
	if b := r.waits(r.a, try).Blocker; b.Ticket != 0 && b.Record != "third" {
		r.Errorf("the blocker's record is %q; want %q", b.Record, "third")
	}
	r.leave(r.b, &resumed)
	r.gone("renewal after leave", r.renew(r.b, &resumed).Err)
}

func amendBatch(r *run) {
	var cs []*driver.Claim
	for i := range 6 {
		c := r.claim()
		c.Name += string(rune('a' + i))
		c.Record = "first"
		c.Ticket = r.holds(r.a, c).Ticket
		switch i % 3 {
		case 1:
			c.Amend = &driver.Amendment{Record: "second"}
		case 2:
			c.Amend = &driver.Amendment{Weight: c.Weight, Record: "second"}
			c.Record = "what it never was"
		}
		cs = append(cs, c)
	}
	for i, a := range r.a.Renew(r.ctx, cs) {
		if i%3 == 2 {
			r.rejected("amendment of another record", a.Err)
		} else if a.Err != nil || a.TTL <= 0 {
			r.Errorf("answer %d = %+v; want a lease", i, a)
		}
	}
	for _, c := range cs {
		r.leave(r.a, c)
	}
}

// late returns a call that amends a claim.
func late(on *Detour, a driver.Amendment) func(context.Context, *driver.Claim) error {
	return func(ctx context.Context, c *driver.Claim) error {
		claim := *c
		claim.Amend = &a
		return on.Renew(ctx, []*driver.Claim{&claim})[0].Err
	}
}

func amendLateForNext(r *run) {
	on := r.store.detour(r)
	r.heldUp(on, "amendment", r.holder(on), late(on, driver.Amendment{Weight: 1, Record: "late"}), r.lateFor)
}

func amendLateRecord(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	on := r.store.detour(r)
	r.heldUp(on, "amendment", r.holder(on), late(on, driver.Amendment{Record: "second"}), func(on *Detour, c *driver.Claim) {
		for _, record := range []string{"second", "third"} {
			r.until(recovers, "the claim has record "+record, func() bool {
				return r.amend(on, c, driver.Amendment{Record: record}) == nil
			})
			c.Record = record
		}
		on.Arrive()
		r.during(afterward, "the record stays", func() bool {
			return r.renew(on, c).Err == nil && r.listed(lister, c.Ticket).Record == "third"
		})
		r.leave(on, c)
	})
}
