package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A bare context has no values.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// observeBugs are about names and about listing, watching and breaking.
var observeBugs = []bug{
	{"Names", "upper and lower case are one", entering(func(c *driver.Claim) { c.Name = strings.ToLower(c.Name) })},
	{"Names", "names are decoded", entering(func(c *driver.Claim) { c.Name = strings.ReplaceAll(c.Name, "%41", "A") })},
	{"Names", "names are trimmed", entering(func(c *driver.Claim) { c.Name = strings.TrimSpace(c.Name) })},
	{"Names", "names are cut", entering(func(c *driver.Claim) { c.Name = c.Name[:min(len(c.Name), 250)] })},
	{"Records", "records end at a zero byte",
		entering(func(c *driver.Claim) { c.Record, _, _ = strings.Cut(c.Record, "\x00") })},
	{"Records", "records are made valid",
		entering(func(c *driver.Claim) { c.Record = strings.ToValidUTF8(c.Record, "?") })},
	{"ListSince", "a turn begins a new time", listingAnew(func(c driver.ClaimInfo) bool { return c.Holds })},
	{"ListPrefix", "a prefix is a pattern",
		&buggy{list: func(ctx context.Context, d *memory.Driver, q *driver.Query) ([]driver.Listing, error) {
			return d.List(ctx, &driver.Query{Name: q.Name, Prefix: strings.TrimRight(q.Prefix, "%_*")})
		}}},
	{"ListHeard", "a listing is silent until it is over",
		&buggy{list: func(ctx context.Context, d *memory.Driver, q *driver.Query) ([]driver.Listing, error) {
			return d.List(bare{ctx}, q)
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
	{"BreakWaiter", "a claim that is gone enters anew", entering(func(c *driver.Claim) { c.Ticket = 0 })},
	{"BreakWaiter", "a claim that was next holds when its turn would have come", removedUnheard()},
	{"Ask", "who is asked is removed",
		&buggy{breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
			return d.Break(ctx, &driver.BreakRequest{Name: b.Name, Ticket: b.Ticket})
		}}},
	{"Ask", "the holder is not told", renewing(func(r *driver.Renewal) { r.Asks = 0 })},
	{"Ask", "the holder is told of one asking only", renewing(func(r *driver.Renewal) { r.Asks = min(r.Asks, 1) })},
	{"BreakIsHeard", "nobody hears", &buggy{alert: func(func(ids ...string)) func(ids ...string) { return func(...string) {} }}},
	{"BreakIsHeard", "the record is that of another break",
		&buggy{breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
			return d.Break(ctx, &driver.BreakRequest{Name: b.Name, Ticket: b.Ticket, Record: "another"})
		}}},
	{"BreakIsHeardByEach", "only one of the breaks is heard",
		&buggy{alert: func(tell func(ids ...string)) func(ids ...string) {
			var heard atomic.Bool
			return func(ids ...string) {
				if heard.Swap(true) {
					tell(ids...)
				}
			}
		}}},
	{"BreakIsOfOne", "all claims of the client end",
		&buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			answers := d.Renew(ctx, cs)
			gone := slices.ContainsFunc(answers, func(a driver.Renewal) bool { return errors.Is(a.Err, driver.ErrGone) })
			for i := range answers {
				if gone {
					answers[i].Err = driver.ErrGone
				}
			}
			return answers
		}}},
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
}

// listingAnew returns a driver by which some claims entered just now.
func listingAnew(these func(driver.ClaimInfo) bool) *buggy {
	return &buggy{list: func(ctx context.Context, d *memory.Driver, q *driver.Query) ([]driver.Listing, error) {
		list, err := d.List(ctx, q)
		for _, l := range list {
			for i, c := range l.Claims {
				if these(c) {
					l.Claims[i].Since = 0
				}
			}
		}
		return list, err
	}}
}

// watching returns a driver with another Watch.
func watching(watch func(context.Context, *memory.Driver, string, func()) error) *buggy {
	return &buggy{watch: watch}
}

// removedUnheard returns a driver whose Await reports that a claim holds once the head of the queue has a larger ticket.
func removedUnheard() *buggy {
	return &buggy{await: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		list, err := d.List(ctx, &driver.Query{Name: c.Name})
		if err != nil || len(list) == 0 || list[0].Claims[0].Ticket <= c.Ticket {
			return d.Await(ctx, c)
		}
		return driver.Place{Ticket: c.Ticket, Holds: true}, nil
	}}
}
