package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/memory"
)

// A buggy driver does what memory does, but for the methods that are set.
type buggy struct {
	*memory.Driver
	enter  func(context.Context, *memory.Driver, *driver.Claim) (driver.Place, error)
	await  func(context.Context, *memory.Driver, *driver.Claim) (driver.Place, error)
	renew  func(context.Context, *memory.Driver, []*driver.Claim) []driver.Renewal
	leave  func(context.Context, *memory.Driver, *driver.Release) error
	list   func(context.Context, *memory.Driver, *driver.Query) ([]driver.Listing, error)
	breaks func(context.Context, *memory.Driver, *driver.BreakRequest) (driver.ClaimInfo, error)
	watch  func(context.Context, *memory.Driver, string, func()) error
	traits func(*driver.Traits)
	close  func(*memory.Driver) error
}

func (b *buggy) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if b.enter == nil {
		return b.Driver.Enter(ctx, c)
	}
	claim := *c
	return b.enter(ctx, b.Driver, &claim)
}

func (b *buggy) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if b.await == nil {
		return b.Driver.Await(ctx, c)
	}
	return b.await(ctx, b.Driver, c)
}

func (b *buggy) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if b.renew == nil {
		return b.Driver.Renew(ctx, cs)
	}
	return b.renew(ctx, b.Driver, cs)
}

func (b *buggy) Leave(ctx context.Context, l *driver.Release) error {
	if b.leave == nil {
		return b.Driver.Leave(ctx, l)
	}
	return b.leave(ctx, b.Driver, l)
}

func (b *buggy) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if b.list == nil {
		return b.Driver.List(ctx, q)
	}
	return b.list(ctx, b.Driver, q)
}

func (b *buggy) Break(ctx context.Context, k *driver.BreakRequest) (driver.ClaimInfo, error) {
	if b.breaks == nil {
		return b.Driver.Break(ctx, k)
	}
	return b.breaks(ctx, b.Driver, k)
}

func (b *buggy) Watch(ctx context.Context, name string, changed func()) error {
	if b.watch == nil {
		return b.Driver.Watch(ctx, name, changed)
	}
	return b.watch(ctx, b.Driver, name, changed)
}

func (b *buggy) Traits() driver.Traits {
	t := b.Driver.Traits()
	if b.traits != nil {
		b.traits(&t)
	}
	return t
}

func (b *buggy) Close() error {
	if b.close == nil {
		return b.Driver.Close()
	}
	return b.close(b.Driver)
}

// entering makes a driver that enters another claim than it was asked to.
func entering(change func(*driver.Claim)) *buggy {
	return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		change(c)
		return d.Enter(ctx, c)
	}}
}

// amendingOne makes a driver that renews claims that are to be amended in its own way.
func amendingOne(renew func(context.Context, *memory.Driver, *driver.Claim) driver.Renewal) *buggy {
	return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
		answers := make([]driver.Renewal, len(cs))
		for i, c := range cs {
			if c.Amend == nil {
				answers[i] = d.Renew(ctx, []*driver.Claim{c})[0]
			} else {
				answers[i] = renew(ctx, d, c)
			}
		}
		return answers
	}}
}

// renewing makes a driver whose renewals are answered otherwise.
func renewing(change func(*driver.Renewal)) *buggy {
	return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
		answers := d.Renew(ctx, cs)
		for i := range answers {
			change(&answers[i])
		}
		return answers
	}}
}

// amending makes a driver that makes another amendment than it was asked for.
func amending(change func(*driver.Amendment)) *buggy {
	return amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
		claim, amendment := *c, *c.Amend
		change(&amendment)
		claim.Amend = &amendment
		if amendment == (driver.Amendment{}) {
			claim.Amend = nil
		}
		return d.Renew(ctx, []*driver.Claim{&claim})[0]
	})
}

// reentering makes a driver that takes a claim out and enters it anew to amend it.
func reentering() *buggy {
	return amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
		_ = d.Leave(ctx, &driver.Release{Claim: c})
		for range 20 {
			runtime.Gosched()
		}
		again := *c
		again.Ticket, again.Record = 0, c.Amend.Record
		if c.Amend.Weight != 0 {
			again.Weight = c.Amend.Weight
		}
		p, err := d.Enter(ctx, &again)
		return driver.Renewal{TTL: p.TTL, Err: err}
	})
}

// replacing makes a driver that replaces any record.
func replacing() *buggy {
	return amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
		a := d.Renew(ctx, []*driver.Claim{c})[0]
		if is, ok := errors.AsType[*driver.RecordError](a.Err); ok {
			again := *c
			again.Record = is.Have
			return d.Renew(ctx, []*driver.Claim{&again})[0]
		}
		return a
	})
}

// forgetful makes a driver that no longer asks its store about a claim that was gone.
func forgetful() *buggy {
	var gone sync.Map
	return &buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
		if _, ok := gone.Load(l.Claim.ID); ok {
			return driver.ErrGone
		}
		err := d.Leave(ctx, l)
		if errors.Is(err, driver.ErrGone) {
			gone.Store(l.Claim.ID, true)
		}
		return err
	}}
}

// oneEar makes a driver that tells a change to one of the client's claims, and to the others nothing.
func oneEar() *buggy {
	var ear sync.Mutex
	return &buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		if !ear.TryLock() {
			<-ctx.Done()
			return driver.Place{}, driver.Ended(ctx, true)
		}
		defer ear.Unlock()
		return d.Await(ctx, c)
	}}
}

// watching makes a driver that watches in another way.
func watching(watch func(context.Context, *memory.Driver, string, func()) error) *buggy {
	return &buggy{watch: watch}
}

// placed makes a driver that tells a wrong place.
func placed(change func(*driver.Place)) *buggy {
	return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		p, err := d.Enter(ctx, c)
		change(&p)
		return p, err
	}}
}

// ending makes a driver that tells in its own way that a context has ended, before a request was sent or after. Its calls
// take a while, and are all made, so that they end late.
func ending(tell func(ctx context.Context, sent bool) error) *buggy {
	end := func(ctx context.Context, call func(ctx context.Context) error) error {
		if ctx.Err() != nil {
			return tell(ctx, false)
		}
		err := call(context.WithoutCancel(ctx))
		poll(ctx)
		if err == nil && ctx.Err() != nil {
			return tell(ctx, true)
		}
		return err
	}
	return &buggy{
		enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (p driver.Place, err error) {
			err = end(ctx, func(ctx context.Context) error { p, err = d.Enter(ctx, c); return err })
			return p, err
		},
		renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) (answers []driver.Renewal) {
			err := end(ctx, func(ctx context.Context) error { answers = d.Renew(ctx, cs); return nil })
			if err != nil {
				answers = make([]driver.Renewal, len(cs))
				for i := range answers {
					answers[i].Err = err
				}
			}
			return answers
		},
		leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			return end(ctx, func(ctx context.Context) error { return d.Leave(ctx, l) })
		},
	}
}

// A recorder takes the failures of a case that ought to fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards failures
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// TestBugsAreCaught shows that each case can fail: a driver with a known bug fails the case that is about it, and the
// failure cites the contract.
func TestBugsAreCaught(t *testing.T) {
	var serial atomic.Int64
	tests := []struct {
		caught string
		bug    string
		driver *buggy
	}{
		{"EnterAgain", "a repeated enter is a new claim",
			entering(func(c *driver.Claim) { c.ID += fmt.Sprint(serial.Add(1)) })},
		{"EnterAgainCountsOnce", "a repeated enter is a new claim",
			entering(func(c *driver.Claim) { c.ID += fmt.Sprint(serial.Add(1)) })},
		{"EnterAtTail", "the lease is longer than asked for", entering(func(c *driver.Claim) { c.TTL *= 2 })},
		{"EnterAtTail", "the lease of a waiter is that of a holder", entering(func(c *driver.Claim) { c.Wait = c.TTL })},
		{"EnterAtTail", "nobody is said to be ahead", placed(func(p *driver.Place) { p.Ahead = 0 })},
		{"EnterAtTail", "the blocker is another claim", placed(func(p *driver.Place) { p.Blocker.Ticket++ })},
		{"EnterKeepsWaiting", "entering again does not renew a waiter",
			&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				if c.Ticket != 0 {
					c.Wait = 0
				}
				return d.Enter(ctx, c)
			}}},
		{"TryKeepsNothing", "a try waits", entering(func(c *driver.Claim) { c.Try = false })},
		{"TryHolds", "a try never enters", placed(func(p *driver.Place) { *p = driver.Place{} })},
		{"TicketGone", "a claim that is gone enters anew", entering(func(c *driver.Claim) { c.Ticket = 0 })},
		{"TicketsRise", "tickets repeat", placed(func(p *driver.Place) { p.Ticket = 1 })},
		{"TicketsRise", "tickets are too large", placed(func(p *driver.Place) { p.Ticket += 1 << 53 })},
		{"Capacity", "the capacity is not compared", entering(func(c *driver.Claim) { c.Capacity = 5 })},
		{"Capacity", "the conflict is a plain error",
			&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				p, err := d.Enter(ctx, c)
				if err != nil {
					err = errors.New("conflict")
				}
				return p, err
			}}},
		{"CapacityForgotten", "the capacity stays",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				_, _ = d.Enter(ctx, &driver.Claim{Name: l.Claim.Name, ID: "stays", Weight: 1, Capacity: l.Claim.Capacity,
					TTL: time.Minute, Wait: time.Minute})
				return d.Leave(ctx, l)
			}}},
		{"Reclaim", "reclaim is not done", entering(func(c *driver.Claim) { c.Reclaim = false })},
		{"ReclaimKept", "reclaim removes what is kept",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				if l.Keep == 0 {
					return d.Leave(ctx, l)
				}
				kept := *l.Claim
				kept.TTL = l.Keep // a lease like any other
				return d.Renew(ctx, []*driver.Claim{&kept})[0].Err
			}}},
		{"ReclaimOwn", "reclaim removes the run's own", entering(func(c *driver.Claim) { c.Client = c.ID })},
		{"ReclaimOthers", "reclaim removes everyone", entering(func(c *driver.Claim) { c.Owner, c.Reclaim = "all", true })},
		{"Exclusive", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
		{"Exclusive", "writers are readers", entering(func(c *driver.Claim) { c.Weight = 1 })},
		{"Order", "waiters are not queued", entering(func(c *driver.Claim) { c.Try = true })},
		{"Readers", "readers exclude each other", entering(func(c *driver.Claim) { c.Weight = c.Capacity })},
		{"Permits", "one permit is given for many", entering(func(c *driver.Claim) { c.Weight = 1 })},
		{"Permits", "permits are lacking, and given", &buggy{traits: func(t *driver.Traits) { t.Permits = false }}},
		{"Readers", "readers are lacking, and let in", &buggy{traits: func(t *driver.Traits) { t.Shared = false }}},
		{"LeaveFrees", "the lock-delay counts after a release",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				return d.Leave(ctx, &driver.Release{Claim: l.Claim, Keep: l.Claim.Delay})
			}}},
		{"LeaveDuringRenew", "a renewal that comes too late puts the claim back",
			&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := make([]driver.Renewal, len(cs))
				for i, c := range cs {
					again := *c
					again.Ticket = 0
					p, err := d.Enter(ctx, &again)
					answers[i] = driver.Renewal{TTL: p.TTL, Err: err}
				}
				return answers
			}}},
		{"LeaveDuringRenew", "a claim that is being renewed cannot leave", func() *buggy {
			var renewing atomic.Int64
			return &buggy{
				renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
					renewing.Add(1)
					defer renewing.Add(-1)
					for range 20 {
						runtime.Gosched()
					}
					return d.Renew(ctx, cs)
				},
				leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
					if renewing.Load() > 0 {
						return driver.ErrGone
					}
					return d.Leave(ctx, l)
				},
			}
		}()},
		{"EndedBefore", "a cause is taken for the store's word",
			ending(func(ctx context.Context, _ bool) error { return context.Cause(ctx) })},
		{"EndedBefore", "the end of a context is a refusal",
			ending(func(ctx context.Context, _ bool) error { return driver.Refused(ctx.Err()) })},
		{"EndedBefore", "the cause is not told",
			ending(func(context.Context, bool) error { return driver.Unsent(errors.New("ended")) })},
		{"EndedDuring", "a cause is taken for the store's word", ending(func(ctx context.Context, sent bool) error {
			if sent {
				return context.Cause(ctx)
			}
			return driver.Ended(ctx, false)
		})},
		{"Unsent", "what was sent is said to be unsent",
			ending(func(ctx context.Context, _ bool) error { return driver.Ended(ctx, false) })},
		{"Unsent", "what is said to be unsent is sent later",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				if err := driver.Ended(ctx, false); err != nil {
					claim := *l.Claim
					time.AfterFunc(20*time.Millisecond,
						func() { _ = d.Leave(context.WithoutCancel(ctx), &driver.Release{Claim: &claim}) })
					return err
				}
				return d.Leave(ctx, l)
			}}},
		{"LeaveTwice", "leaving twice is fine",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				_ = d.Leave(ctx, l)
				return nil
			}}},
		{"LeaveOfAnother", "leave goes by the ticket",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				_, err := d.Break(ctx, &driver.BreakRequest{Name: l.Claim.Name, Ticket: l.Claim.Ticket})
				return err
			}}},
		{"LeaveWaiter", "a waiter cannot leave",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				if p, err := d.Enter(ctx, l.Claim); err == nil && p.Holds {
					return d.Leave(ctx, l)
				}
				return nil
			}}},
		{"KeepStays", "keep is not done",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				return d.Leave(ctx, &driver.Release{Claim: l.Claim})
			}}},
		{"KeepIsFinal", "a kept claim is alive",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				return d.Renew(ctx, []*driver.Claim{l.Claim})[0].Err
			}}},
		{"Expiry", "leases do not end", entering(func(c *driver.Claim) { c.TTL = time.Hour })},
		{"Expiry", "leases end early", entering(func(c *driver.Claim) { c.TTL /= 2 })},
		{"ExpiryIsFinal", "a late renewal puts the claim back",
			&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				c := *cs[0]
				c.Ticket = 0
				p, err := d.Enter(ctx, &c)
				return []driver.Renewal{{TTL: p.TTL, Err: err}}
			}}},
		{"RenewExtends", "renew only looks",
			&buggy{renew: func(_ context.Context, _ *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				return []driver.Renewal{{TTL: cs[0].TTL}}
			}}},
		{"RenewBatch", "the answers are in another order",
			&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := d.Renew(ctx, cs)
				slices.Reverse(answers)
				return answers
			}}},
		{"RenewBatch", "the first failure ends the batch",
			&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := d.Renew(ctx, cs)
				for i := 1; i < len(answers); i++ {
					if answers[i-1].Err != nil {
						answers[i] = answers[i-1]
					}
				}
				return answers
			}}},
		{"Delay", "the lock-delay does not count", entering(func(c *driver.Claim) { c.Delay = 0 })},
		{"DelayNotTold", "all are thought to be told", entering(func(c *driver.Claim) { c.Wait += c.Delay })},
		{"AwaitLeave", "notifications are lost",
			&buggy{await: func(ctx context.Context, _ *memory.Driver, _ *driver.Claim) (driver.Place, error) {
				<-ctx.Done()
				return driver.Place{}, ctx.Err()
			}}},
		{"AwaitDoesNotRenew", "await renews",
			&buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				_, _ = d.Enter(ctx, c)
				return d.Await(ctx, c)
			}}},
		{"AwaitContext", "a place holds when the time is over",
			&buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				_, _ = d.Await(ctx, c)
				return driver.Place{Ticket: c.Ticket, Holds: true}, nil
			}}},
		{"Names", "upper and lower case are one", entering(func(c *driver.Claim) { c.Name = strings.ToLower(c.Name) })},
		{"Names", "names are decoded", entering(func(c *driver.Claim) { c.Name = strings.ReplaceAll(c.Name, "%41", "A") })},
		{"Names", "names are trimmed", entering(func(c *driver.Claim) { c.Name = strings.TrimSpace(c.Name) })},
		{"Names", "names are cut", entering(func(c *driver.Claim) { c.Name = c.Name[:min(len(c.Name), 250)] })},
		{"Records", "records end at a zero byte",
			entering(func(c *driver.Claim) { c.Record, _, _ = strings.Cut(c.Record, "\x00") })},
		{"Records", "records are made valid",
			entering(func(c *driver.Claim) { c.Record = strings.ToValidUTF8(c.Record, "?") })},
		{"ListPrefix", "a prefix is a pattern",
			&buggy{list: func(ctx context.Context, d *memory.Driver, q *driver.Query) ([]driver.Listing, error) {
				return d.List(ctx, &driver.Query{Name: q.Name, Prefix: strings.TrimRight(q.Prefix, "%_*")})
			}}},
		{"ListPrefix", "names come in any order",
			&buggy{list: func(ctx context.Context, d *memory.Driver, q *driver.Query) ([]driver.Listing, error) {
				list, err := d.List(ctx, q)
				slices.Reverse(list)
				return list, err
			}}},
		{"Break", "the head is broken, whatever the ticket",
			&buggy{breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
				return d.Break(ctx, &driver.BreakRequest{Name: b.Name})
			}}},
		{"Ask", "who is asked is removed",
			&buggy{breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
				return d.Break(ctx, &driver.BreakRequest{Name: b.Name, Ticket: b.Ticket})
			}}},
		{"Ask", "the holder is not told", renewing(func(r *driver.Renewal) { r.Asks = 0 })},
		{"Ask", "the holder is told of one asking only", renewing(func(r *driver.Renewal) { r.Asks = min(r.Asks, 1) })},
		{"AskGone", "the holder is asked, whatever the ticket",
			&buggy{breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
				return d.Break(ctx, &driver.BreakRequest{Name: b.Name, Ask: true})
			}}},
		{"AskLack", "the holder is removed where it cannot be asked",
			&buggy{
				traits: func(t *driver.Traits) { t.Asks = false },
				breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
					return d.Break(ctx, &driver.BreakRequest{Name: b.Name, Ticket: b.Ticket})
				},
			}},
		{"Watch", "nothing is told", watching(func(ctx context.Context, _ *memory.Driver, _ string, _ func()) error {
			<-ctx.Done()
			return ctx.Err()
		})},
		{"Watch", "changes are not told",
			watching(func(ctx context.Context, _ *memory.Driver, _ string, changed func()) error {
				changed()
				<-ctx.Done()
				return ctx.Err()
			})},
		{"Watch", "waiters that leave are not told",
			watching(func(ctx context.Context, d *memory.Driver, name string, changed func()) error {
				was := 0
				return d.Watch(ctx, name, func() {
					list, _ := d.List(ctx, &driver.Query{Name: name})
					if len(list) != 1 || len(list[0].Claims) > was || len(list[0].Claims) == 1 && !list[0].Claims[0].Holds {
						changed()
					}
					was = 0
					if len(list) == 1 {
						was = len(list[0].Claims)
					}
				})
			})},
		{"WatchContext", "the context's end is no error",
			watching(func(ctx context.Context, d *memory.Driver, name string, changed func()) error {
				_ = d.Watch(ctx, name, changed)
				return nil
			})},
		{"WatchClose", "a watch outlives its driver",
			watching(func(ctx context.Context, d *memory.Driver, name string, changed func()) error {
				other := d.Store().Driver()
				defer other.Close()
				return other.Watch(ctx, name, changed)
			})},
		{"Traits", "the clock is unknown", &buggy{traits: func(t *driver.Traits) { t.Clock = "" }}},
		{"Close", "close does nothing", &buggy{close: func(*memory.Driver) error { return nil }}},
		{"CloseKeepsClaims", "claims that are pinned outlive their client",
			&buggy{traits: func(t *driver.Traits) { t.OwnClient = true }}},
		{"CloseEndsAwait", "close does nothing", &buggy{close: func(*memory.Driver) error { return nil }}},
		{"LateEnter", "an entry throws out who holds",
			&buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
				if c.Ticket == 0 && !c.Try {
					_, _ = d.Break(ctx, &driver.BreakRequest{Name: c.Name})
				}
				return d.Enter(ctx, c)
			}}},
		{"LateEnterLostLeave", "a claim that was gone once is not looked for again", forgetful()},
		{"LateLeave", "whoever holds leaves",
			&buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				_, err := d.Break(ctx, &driver.BreakRequest{Name: l.Claim.Name})
				return err
			}}},
		{"LateRenew", "a renewal brings its claim back",
			&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := d.Renew(ctx, cs)
				if again := *cs[0]; errors.Is(answers[0].Err, driver.ErrGone) {
					_, _ = d.Break(ctx, &driver.BreakRequest{Name: again.Name})
					again.Ticket = 0
					_, _ = d.Enter(ctx, &again)
				}
				return answers
			}}},
		{"AmendDowngrade", "the weight stays", amending(func(a *driver.Amendment) { a.Weight = 0 })},
		{"AmendNobodyBetween", "a writer leaves, and enters as a reader", reentering()},
		{"AmendPermits", "the weight stays", amending(func(a *driver.Amendment) { a.Weight = 0 })},
		{"AmendStays", "a writer leaves, and enters as a reader", reentering()},
		{"AmendTwice", "what is so already is refused",
			amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
				list, _ := d.List(ctx, &driver.Query{Name: c.Name})
				if len(list) == 1 && list[0].Claims[0].Record == c.Amend.Record {
					return driver.Renewal{Err: driver.Refused(errors.New("it is so already"))}
				}
				return d.Renew(ctx, []*driver.Claim{c})[0]
			})},
		{"AmendHeavier", "what cannot be done is passed over", amending(func(a *driver.Amendment) { a.Weight = 0 })},
		{"AmendWaiter", "a claim that waits is renewed", amending(func(a *driver.Amendment) { *a = driver.Amendment{} })},
		{"AmendGone", "a claim is brought back", reentering()},
		{"AmendRecord", "the record stays", amending(func(a *driver.Amendment) { a.Record = "" })},
		{"AmendRecord", "amendments are lacking, and made", &buggy{traits: func(t *driver.Traits) { t.Amends = false }}},
		{"AmendAnotherRecord", "any record is replaced", replacing()},
		{"AmendLateRecord", "any record is replaced", replacing()},
		{"AmendBatch", "one refusal is everybody's",
			&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := d.Renew(ctx, cs)
				for _, a := range answers {
					if a.Err != nil {
						return slices.Repeat([]driver.Renewal{a}, len(cs))
					}
				}
				return answers
			}}},
		{"AmendLateForNext", "whoever holds is amended",
			amendingOne(func(ctx context.Context, d *memory.Driver, c *driver.Claim) driver.Renewal {
				a := d.Renew(ctx, []*driver.Claim{c})[0]
				if errors.Is(a.Err, driver.ErrGone) {
					_, _ = d.Break(ctx, &driver.BreakRequest{Name: c.Name})
				}
				return a
			})},
		{"AwaitOfMany", "a client hears of the next change only", oneEar()},
		{"AwaitWhileOthersComeAndGo", "a client hears of the next change only", oneEar()},
		{"StressExclusive", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
		{"StressShared", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
		{"StressPermits", "everyone holds", placed(func(p *driver.Place) { p.Holds = true })},
	}
	for _, test := range tests {
		t.Run(test.caught+"/"+test.bug, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == test.caught })
			if i < 0 {
				t.Fatalf("there is no case %s", test.caught)
			}
			var r *recorder
			for range 3 { // on a busy machine a lease may end although the bug renews it
				store := memory.NewStore()
				s := Store{Slack: 200 * time.Millisecond, Lease: 100 * time.Millisecond,
					Open: func(testing.TB) driver.Driver {
						d := *test.driver
						d.Driver = store.Driver()
						return &d
					}}
				r = &recorder{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done)
					check(r, s, s.Open(t), s.Open(t), Cases()[i])
				}()
				if <-done; len(r.failures) > 0 {
					break
				}
			}
			if len(r.failures) == 0 {
				t.Fatal("the case passes")
			}
			if !strings.Contains(r.failures[0], "the contract: "+Cases()[i].Sentence) {
				t.Errorf("the failure does not cite the contract: %s", r.failures[0])
			}
		})
	}
}

// A client that stands still has all that a store has one of: the case for that sees it, and passes where it has only a
// name.
func TestStallIsCaught(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == "StallOthers" })
	for _, bug := range []bool{true, false} {
		var (
			store = memory.NewStore()
			one   = make(chan struct{}, 1) // what there is one of
			s     = Store{Open: func(testing.TB) driver.Driver {
				return &buggy{Driver: store.Driver(),
					renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
						select {
						case one <- struct{}{}:
							<-one
							return d.Renew(ctx, cs)
						case <-ctx.Done():
							all := make([]driver.Renewal, len(cs))
							for i := range all {
								all[i].Err = driver.Ended(ctx, false)
							}
							return all
						}
					}}
			}}
		)
		s.Stall = func(testing.TB) *Stalled {
			var still atomic.Bool
			on := make(chan struct{})
			d := &buggy{Driver: store.Driver(),
				enter: func(ctx context.Context, _ *memory.Driver, _ *driver.Claim) (driver.Place, error) {
					if bug {
						one <- struct{}{}
						defer func() { <-one }()
					}
					still.Store(true)
					select {
					case <-on:
					case <-ctx.Done():
					}
					return driver.Place{}, driver.Ended(ctx, true)
				}}
			return &Stalled{Driver: d, After: func(int) {}, Still: still.Load, Pass: func() { close(on) }}
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			check(r, s, s.Open(t), s.Open(t), Cases()[i])
		}()
		if <-done; len(r.failures) > 0 != bug {
			t.Errorf("with the bug: %v; the failures are %q", bug, r.failures)
		}
	}
}
