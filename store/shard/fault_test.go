package shard_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/shard"
)

// A crossed is a client in the middle of a move of the name "report" from store a to store c, and its drivers of both.
type crossed struct {
	testing.TB
	driver.Driver
	from, to *memory.Driver
}

// moved is a name that the lists a, b and b, c put in different stores. The two lists put stays in the same store.
const moved, stays = "report", "deploy"

func cross(t testing.TB, m memories) *crossed {
	t.Helper()
	before, after := m.stores("a", "b"), m.stores("b", "c")
	x := &crossed{TB: t, from: before[0].Driver.(*memory.Driver), to: after[1].Driver.(*memory.Driver)}
	x.Driver = open(t, after, &shard.Options{Previous: without(before, "b")})
	t.Cleanup(func() { x.Close() })
	first := claim(stays, "first") // it makes the client a member
	enter(t, x, first)
	leave(t, x, first)
	return x
}

// ids returns the claims on the moving name in the two stores.
func (x *crossed) ids() (from, to []string) {
	x.Helper()
	list := func(s *memory.Store) (ids []string) {
		all, err := s.Driver().List(x.Context(), &driver.Query{Name: moved})
		if err != nil {
			x.Fatal(err)
		}
		for _, l := range all {
			for _, st := range l.Claims {
				ids = append(ids, st.Record[len("record of "):])
			}
		}
		return ids
	}
	return list(x.from.Store()), list(x.to.Store())
}

// stand checks the claims in the two stores.
func (x *crossed) stand(when string, from, to []string) {
	x.Helper()
	if gotFrom, gotTo := x.ids(); !slices.Equal(gotFrom, from) || !slices.Equal(gotTo, to) {
		x.Errorf("%s: the stores have %q and %q; want %q and %q", when, gotFrom, gotTo, from, to)
	}
}

func (x *crossed) renew(c *driver.Claim) driver.Renewal {
	return x.Renew(x.Context(), []*driver.Claim{c})[0]
}

func TestHeldInBoth(t *testing.T) {
	t.Parallel()
	x := cross(t, memories{})
	first, second := claim(moved, "1"), claim(moved, "2")
	if p := enter(t, x, first); !p.Holds || p.TTL != first.TTL {
		t.Errorf("enter = %+v; want a place that holds", p)
	}
	x.stand("held", []string{"1"}, []string{"1"})
	if p := enter(t, x, second); p.Holds || p.Ahead != 1 || p.Blocker.Record != first.Record {
		t.Errorf("enter of another = %+v; want it behind the first", p)
	}
	x.stand("awaited", []string{"1", "2"}, []string{"1"})
	first.TTL = 20 * time.Second
	if a := x.renew(first); a.Err != nil || a.TTL != first.TTL {
		t.Errorf("renewal = %+v; want %v", a, first.TTL)
	}
	leave(t, x, first)
	x.stand("left", []string{"2"}, nil)
	if p := enter(t, x, second); !p.Holds {
		t.Errorf("enter = %+v; want a place that holds", p)
	}
	leave(t, x, second)
	x.stand("left by all", nil, nil)
	here := claim(stays, "1")
	enter(t, x, here)
	x.stand("a name that stays", nil, nil)
}

// An amendment that one of two stores missed has an unknown outcome, and may be repeated until both have it.
func TestAmendedInMove(t *testing.T) {
	t.Parallel()
	for what, at := range map[string]func(x *crossed) *memory.Driver{
		"from": func(x *crossed) *memory.Driver { return x.from }, "to": func(x *crossed) *memory.Driver { return x.to },
	} {
		x := cross(t, memories{})
		c, reader := claim(moved, "1"), claim(moved, "2")
		enter(t, x, c)
		reader.Weight = 1
		c.Amend = &driver.Amendment{Weight: 1, Record: "record of another"}
		at(x).Inject(memory.Fault{Verb: memory.Renew, Drop: true})
		if a := x.renew(c); a.Err == nil || driver.OutcomeOf(a.Err) != driver.OutcomeUnknown {
			t.Errorf("%s does not get it: amendment = %+v; want an unknown outcome", what, a)
		}
		if p := enter(t, x, reader); p.Holds {
			t.Errorf("%s did not get it: a reader's place is %+v; want it to wait", what, p)
		}
		if a := x.renew(c); a.Err != nil {
			t.Errorf("%s did not get it before: the amendment again = %v; want nil", what, a.Err)
		}
		if p := enter(t, x, reader); !p.Holds {
			t.Errorf("%s has it: a reader's place is %+v; want it to hold", what, p)
		}
		x.stand("amended in both", []string{"another", "2"}, []string{"another", "2"})
	}
}

// A holder gets every request for its lock in the middle of a move, whichever store got the request.
func TestAskedInMove(t *testing.T) {
	t.Parallel()
	x := cross(t, memories{})
	c := claim(moved, "1")
	enter(t, x, c)
	for i, asks := range []driver.Breaker{x.Driver.(driver.Breaker), x.from.Store().Driver(), x.to.Store().Driver()} {
		if _, err := asks.Break(t.Context(), &driver.BreakRequest{Name: moved, Ask: true}); err != nil {
			t.Fatalf("ask %d: %v", i, err)
		}
		if a := x.renew(c); a.Err != nil || a.Asks != int64(i)+1 {
			t.Errorf("renewal after ask %d = %+v; want %d askings", i, a, i+1)
		}
	}
	x.stand("asked for", []string{"1"}, []string{"1"})
}

// A claim that holds in two stores has the shorter of the two leases.
func TestShorterLeaseCounts(t *testing.T) {
	t.Parallel()
	for what, at := range map[string]func(x *crossed) *memory.Driver{
		"from": func(x *crossed) *memory.Driver { return x.from }, "to": func(x *crossed) *memory.Driver { return x.to },
	} {
		x := cross(t, memories{})
		long, c := claim(moved, "1"), claim(moved, "1")
		long.TTL = time.Minute
		enter(t, at(x), long) // the lease is not made shorter
		if p := enter(t, x, c); !p.Holds || p.TTL != c.TTL {
			t.Errorf("%s has a longer lease: enter = %+v; want it to hold for %v", what, p, c.TTL)
		}
		if a := x.renew(c); a.Err != nil || a.TTL != c.TTL {
			t.Errorf("%s has a longer lease: renewal = %+v; want %v", what, a, c.TTL)
		}
	}
}

// The store from which the name moves is down: no claim holds, and nothing is left in the other.
func TestFromIsDown(t *testing.T) {
	t.Parallel()
	x := cross(t, memories{})
	x.from.SetLink(memory.Refused)
	if _, err := x.Enter(t.Context(), claim(moved, "1")); !driver.IsUnreachable(err) {
		t.Errorf("enter = %v; want the store's error", err)
	}
	x.stand("refused", nil, nil)
	if p := enter(t, x, claim(stays, "1")); !p.Holds {
		t.Errorf("enter of a name that stays = %+v; want it to hold", p)
	}
}

// The store to which the name moves is down: no claim holds. The outcome is unknown, since the other store may still have
// the claim.
func TestToIsDown(t *testing.T) {
	t.Parallel()
	x := cross(t, memories{})
	c := claim(moved, "1")
	x.to.Inject(memory.Fault{Verb: memory.Enter, Err: driver.Refused(driver.Unreachable(errors.New("down")))})
	if p, err := x.Enter(t.Context(), c); !driver.IsUnreachable(err) || driver.NotApplied(err) || p.Holds {
		t.Errorf("enter = %+v, %v; want it to be open whether it was applied", p, err)
	}
	x.stand("refused by one", []string{"1"}, nil)
	if p := enter(t, x, c); !p.Holds {
		t.Errorf("enter again = %+v; want it to hold", p)
	}
	leave(t, x, c)
	x.stand("left", nil, nil)
}

// If the second store refuses a claim for good, the claim is removed from the first, so the refusal is true.
func TestToRefuses(t *testing.T) {
	t.Parallel()
	x := cross(t, memories{})
	x.to.Inject(memory.Fault{Verb: memory.Enter, Err: driver.ErrForeign})
	if _, err := x.Enter(t.Context(), claim(moved, "1")); !errors.Is(err, driver.ErrForeign) || !driver.NotApplied(err) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
	x.stand("refused", nil, nil)

	x.to.Inject(memory.Fault{Verb: memory.Enter, Err: driver.ErrForeign})
	x.from.Inject(memory.Fault{Verb: memory.Enter}) // it has no effect
	x.from.Inject(memory.Fault{Verb: memory.Leave, Drop: true})
	if _, err := x.Enter(t.Context(), claim(moved, "2")); err == nil || driver.NotApplied(err) {
		t.Errorf("enter = %v; want it to be open whether it was applied, since it cannot be taken out", err)
	}
	x.stand("refused, and not taken out", []string{"2"}, nil)
}

func TestRepliesAreLost(t *testing.T) {
	t.Parallel()
	for what, at := range map[string]func(x *crossed) *memory.Driver{
		"from": func(x *crossed) *memory.Driver { return x.from }, "to": func(x *crossed) *memory.Driver { return x.to },
	} {
		x := cross(t, memories{})
		c := claim(moved, "1")
		at(x).Inject(memory.Fault{Verb: memory.Enter, Lose: true})
		if _, err := x.Enter(t.Context(), c); err == nil || driver.NotApplied(err) {
			t.Errorf("%s: enter = %v; want it to be open whether it was applied", what, err)
		}
		if p := enter(t, x, c); !p.Holds {
			t.Errorf("%s: enter again = %+v; want it to hold", what, p)
		}
		at(x).Inject(memory.Fault{Verb: memory.Leave, Lose: true})
		if err := x.Leave(t.Context(), &driver.Release{Claim: c}); err == nil || driver.NotApplied(err) {
			t.Errorf("%s: leave = %v; want it to be open whether it was applied", what, err)
		}
		x.stand(what+": left", nil, nil)
	}
}

// A claim that is lost in one store is lost, and is removed from the other.
func TestLostInOne(t *testing.T) {
	t.Parallel()
	for what, at := range map[string]func(x *crossed) *memory.Driver{
		"from": func(x *crossed) *memory.Driver { return x.from }, "to": func(x *crossed) *memory.Driver { return x.to },
	} {
		x := cross(t, memories{})
		renewed, entered := claim(moved, "1"), claim(moved, "2")
		enter(t, x, renewed)
		if _, err := at(x).Break(t.Context(), &driver.BreakRequest{Name: moved}); err != nil {
			t.Fatal(err)
		}
		if a := x.renew(renewed); !errors.Is(a.Err, driver.ErrGone) {
			t.Errorf("%s: renewal = %+v; want ErrGone", what, a)
		}
		servertest.Until(t, what+": the other store has nothing of it", func() bool {
			from, to := x.ids()
			return len(from)+len(to) == 0
		})
		enter(t, x, entered)
		if _, err := at(x).Break(t.Context(), &driver.BreakRequest{Name: moved}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Enter(t.Context(), entered); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: enter again = %v; want ErrGone", what, err)
		}
		x.stand(what+": entered again", nil, nil)
	}
}

// A renewal that only one store answers has an unknown outcome.
func TestRenewalIsLostInOne(t *testing.T) {
	t.Parallel()
	x := cross(t, memories{})
	c := claim(moved, "1")
	enter(t, x, c)
	for _, d := range []*memory.Driver{x.from, x.to} {
		d.Inject(memory.Fault{Verb: memory.Renew, Drop: true})
		if a := x.renew(c); !errors.Is(a.Err, memory.ErrInjected) || a.TTL != 0 {
			t.Errorf("renewal = %+v; want the error of the store that did not answer", a)
		}
	}
	if a := x.renew(c); a.Err != nil {
		t.Errorf("renewal = %+v; want it renewed", a)
	}
}

// A client with only the new list keeps out clients with both lists. These leave nothing in the old store if they do not
// wait.
func TestBehindTheNext(t *testing.T) {
	t.Parallel()
	m := memories{}
	x := cross(t, m)
	last := m.at(t, next)
	defer last.Close()
	theirs := claim(moved, "theirs")
	enter(t, last, theirs)
	try := claim(moved, "try")
	try.Try = true
	if p := enter(t, x, try); p.Holds || p.Ticket != 0 || p.Blocker.Record != theirs.Record {
		t.Errorf("try = %+v; want it refused because of the other's claim", p)
	}
	x.stand("tried", nil, []string{"theirs"})

	waits := claim(moved, "waits")
	if p := enter(t, x, waits); p.Holds || p.Ahead != 1 {
		t.Errorf("enter = %+v; want it behind the other's claim", p)
	}
	x.stand("waiting", []string{"waits"}, []string{"theirs", "waits"})
	if err := x.Leave(t.Context(), &driver.Release{Claim: waits, Keep: time.Minute}); err != nil {
		t.Errorf("leave = %v; want nil", err)
	}
	x.stand("left without having held", nil, []string{"theirs"})

	waits = claim(moved, "again")
	enter(t, x, waits)
	told := make(chan error, 1)
	go func() {
		for {
			if _, err := x.Await(t.Context(), waits); err != nil {
				told <- err
				return
			}
			if p, err := x.Enter(t.Context(), waits); err != nil || p.Holds {
				told <- err
				return
			}
		}
	}()
	leave(t, last, theirs)
	if err := <-told; err != nil {
		t.Errorf("the wait ended with %v; want it to end with a place that holds", err)
	}
	x.stand("held", []string{"again"}, []string{"again"})
}

// Another client can renew, release and keep a claim.
func TestAnotherClientOfTheSameClaim(t *testing.T) {
	t.Parallel()
	m := memories{}
	one, other := cross(t, m), cross(t, m)
	c := claim(moved, "1")
	enter(t, one, c)
	if a := other.renew(c); a.Err != nil || a.TTL != c.TTL {
		t.Errorf("renewal by the other = %+v; want it renewed", a)
	}
	if p := enter(t, other, c); !p.Holds {
		t.Errorf("enter by the other = %+v; want it found", p)
	}
	if err := other.Leave(t.Context(), &driver.Release{Claim: c, Keep: time.Minute}); err != nil {
		t.Errorf("leave by the other = %v; want nil", err)
	}
	one.stand("kept", []string{"1"}, []string{"1"})
	if a := one.renew(c); !errors.Is(a.Err, driver.ErrGone) {
		t.Errorf("renewal of what is kept = %+v; want ErrGone", a)
	}
	stranger := claim(moved, "2")
	stranger.Ticket = c.Ticket
	if err := other.Leave(t.Context(), &driver.Release{Claim: stranger}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leave of a claim that is not there = %v; want ErrGone", err)
	}
}

// During a move a listing shows a name once, and a claim can be broken in either store.
func TestObservedInMove(t *testing.T) {
	t.Parallel()
	m := memories{}
	x := cross(t, m)
	last := m.at(t, next)
	defer last.Close()
	lists := func() (names, records []string) {
		all, err := x.Driver.(driver.Lister).List(t.Context(), &driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			names = append(names, l.Name)
			for _, st := range l.Claims {
				records = append(records, st.Record)
			}
		}
		return names, records
	}
	first := claim(moved, "1")
	enter(t, x, first)
	enter(t, x, claim(stays, "2"))
	there, err := x.to.List(t.Context(), &driver.Query{Name: moved})
	if err != nil {
		t.Fatal(err)
	}
	if n := there[0].Claims[0].Ticket; n != first.Ticket { // it is another claim's, if listings show the old store
		if _, err := x.Driver.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: moved, Ticket: n}); !errors.Is(err, driver.ErrGone) {
			t.Errorf("break of the new store's ticket = %v; want ErrGone", err)
		}
	}
	if names, records := lists(); !slices.Equal(names, []string{stays, moved}) || !slices.Equal(records, []string{"record of 2", "record of 1"}) {
		t.Errorf("list = %q with %q; want each name once", names, records)
	}
	for _, stays := range []bool{true, false} { // in both stores, and in one
		if !stays {
			enter(t, x, claim(moved, "1 again"))
			x.to.Inject(memory.Fault{Verb: memory.Break, Drop: true})
		}
		if _, err := x.Driver.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: moved}); err != nil {
			t.Errorf("break = %v; want nil", err)
		}
	}
	x.stand("broken, the second in the old store alone", nil, []string{"1 again"})
	if st, err := x.Driver.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: moved}); err != nil || st.Record != "record of 1 again" {
		t.Errorf("break = %+v, %v; want what is left in the new store", st, err)
	}
	x.stand("broken", nil, nil)
	enter(t, last, claim(moved, "3"))
	if names, records := lists(); !slices.Equal(names, []string{stays, moved}) || !slices.Equal(records, []string{"record of 2", "record of 3"}) {
		t.Errorf("list = %q with %q; want what is in the new store, since the old one has nothing", names, records)
	}
}

// While one store is down, its names fail, and the others go on.
func TestOneStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, storeIsDown)
}

func storeIsDown(t *testing.T) {
	list := memories{}.stores("a", "b", "c")
	down := list[2].Driver.(*memory.Driver)
	list[2].Weight = 2
	d := open(t, list, nil)
	defer d.Close()
	here, there := claim("deploy", "1"), claim("report", "2") // in b, and in c
	enter(t, d, here)
	enter(t, d, there)
	down.SetLink(memory.Silent)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	a := d.Renew(ctx, []*driver.Claim{there, here})
	if a[0].Err == nil || driver.NotApplied(a[0].Err) || a[1].Err != nil {
		t.Errorf("renewals = %+v; want that of the store that is up alone", a)
	}
	down.SetLink(memory.Refused)
	_, err := d.Enter(t.Context(), there)
	if !driver.IsUnreachable(err) || !errors.Is(err, memory.ErrInjected) {
		t.Errorf("enter where the store is down = %v; want its error", err)
	}
	if want := "store c: "; err != nil && err.Error()[:len(want)] != want {
		t.Errorf("enter where the store is down = %v; want it to begin with %q", err, want)
	}
	leave(t, d, here)
	down.Heal()
	leave(t, d, there)
}
