package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A call is one change of a queue by the function.
type call struct {
	verb    string
	claim   *driver.Claim
	channel *string // nil: unchanged
	keep    time.Duration
}

// An answer is the result of a call.
type answer struct {
	status         string
	ticket         int64
	holds          bool
	lease, retry   int64
	ahead, have    int64
	blocker        driver.ClaimInfo
	since, remains int64
	record         []byte
}

func (a *answer) place() driver.Place {
	a.finish()
	return driver.Place{
		Ticket: a.ticket, Holds: a.holds, TTL: span(a.lease), Retry: span(a.retry), Ahead: int(a.ahead), Blocker: a.blocker,
	}
}

func (a *answer) finish() {
	a.blocker.Since, a.blocker.Remaining, a.blocker.Record = span(a.since), span(a.remains), string(a.record)
}

// columns are the variables for the columns of the function's answer.
func (a *answer) columns() []any {
	b := &a.blocker
	return []any{
		&a.status, &a.ticket, &a.holds, &a.lease, &a.ahead, &a.retry, &a.have,
		&b.Ticket, &b.Weight, &b.Holds, &b.Left, &a.since, &a.remains, &a.record,
	}
}

// ScanIndex implements pgtype.CompositeIndexScanner: the function's answer as one column.
func (a *answer) ScanIndex(i int) any { return a.columns()[i] }

// ScanNull implements pgtype.CompositeIndexScanner. The function was called, so the answer is not NULL.
func (a *answer) ScanNull() error { return nil }

// act makes a call, by the function unless the claim is alone. Errors in the answer are errors of the contract.
func (d *Driver) act(ctx context.Context, what *call) (*answer, error) {
	alone := d.alone(what)
	itself := func() (*answer, error) { return d.byItself(ctx, what, alone) }
	if alone && d.groups.fits(what) {
		return d.groups.act(ctx, what, itself)
	}
	return itself()
}

// byItself makes a call by a statement of its own, for a lone claim if alone is true.
func (d *Driver) byItself(ctx context.Context, what *call, alone bool) (*answer, error) {
	a := &answer{}
	var err error
	if alone {
		err = d.tryAlone(ctx, what, a)
	} else {
		err = d.byFunction(ctx, what, a)
	}
	switch {
	case err != nil:
		return nil, err
	case a.status == "":
		return nil, errShort
	case a.status == "gone":
		return nil, d.failover.gone()
	case a.status == "capacity":
		return nil, &driver.CapacityError{Have: a.have, Want: what.claim.Capacity}
	}
	return a, nil
}

// byFunction makes a call by the function.
func (d *Driver) byFunction(ctx context.Context, what *call, a *answer) error {
	c := what.claim
	return d.link.Query(ctx, d.statements.do, []any{
		what.verb, []byte(c.Name), []byte(c.ID), []byte(c.Client), what.channel, []byte(c.Owner), []byte(c.Record),
		c.Weight, c.Capacity, micros(c.TTL), micros(c.Wait), micros(c.Delay), micros(what.keep),
		c.Ticket, c.Try, c.Reclaim && c.Owner != "",
	}, func(rows pgx.Rows) error { return rows.Scan(a.columns()...) })
}

// tryAlone makes a call by a statement that calls the function only if the claim is not alone.
func (d *Driver) tryAlone(ctx context.Context, what *call, a *answer) error {
	var (
		c             = what.claim
		statement     = d.statements.leave
		values        = link.NewValues(13).Text(c.Name).Text(c.ID)
		otherwise any = &a.status
	)
	if what.verb == "enter" {
		statement, otherwise = d.statements.enter, a
		values.Text(c.Client).Text(*what.channel).Text(c.Owner).Text(c.Record)
		values.Numbers(c.Weight, c.Capacity, micros(c.TTL), micros(c.Wait), micros(c.Delay)).Truths(c.Try, c.Reclaim && c.Owner != "")
	}
	return d.link.QueryRaw(ctx, statement, values, func(r *link.Row) error {
		ticket, ok := r.Number(0)
		if !ok {
			return r.Scan(1, otherwise)
		}
		a.status, a.ticket, a.holds, a.lease = "ok", ticket, true, micros(c.TTL)
		return nil
	})
}

// alone reports whether a call first tries the short way of a lone claim. Behind a pooler answers come as text, and the one
// column of the function's answer could not be read.
func (d *Driver) alone(what *call) bool {
	switch {
	case d.pollReason != "":
		return false
	case what.verb == "enter":
		return what.claim.Ticket == 0 && !d.contended.of(what.claim.Name).Load()
	default:
		return what.verb == "leave" && what.keep == 0
	}
}

var errShort = errors.New("postgres answered for fewer claims than it was asked for")

// Enter is one round trip, or two if it went with others and is not alone.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	return d.enter(ctx, c, c)
}

// Adopt is [driver.Adopter.Adopt]. It asks for a lease of length 0, and a lease is never made shorter.
func (d *Driver) Adopt(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.Ticket == 0 {
		return driver.Place{}, driver.Refused(errors.New("a claim without a ticket cannot be adopted"))
	}
	found := *c
	found.TTL, found.Wait, found.Try, found.Reclaim = 0, 0, false, false
	return d.enter(ctx, c, &found)
}

// enter enters a claim on the terms of another one.
func (d *Driver) enter(ctx context.Context, c, terms *driver.Claim) (driver.Place, error) {
	// From here on a notification may say that the claim holds, even before the answer is here.
	expected := !c.Try && d.inboxes.Expect(d.channel, c.ID)
	channel := d.channel // also while nobody listens: this may arrive after an Enter that was sent when the driver listened
	if d.pollReason != "" {
		channel = ""
	}
	a, err := d.act(ctx, &call{verb: "enter", claim: terms, channel: &channel})
	if expected && (err != nil || a.holds) {
		d.inboxes.Forget(d.channel, c.ID)
	}
	if err != nil {
		return driver.Place{}, d.breaks.explain(c, err)
	}
	d.contended.of(c.Name).Store(!a.holds || a.ahead > 0)
	d.groups.seen.add(c.Name)
	if a.ticket != 0 {
		d.failover.add(c)
		d.breaks.stands(c, a.ticket, a.holds)
	}
	return a.place(), nil
}

// Leave is one round trip, or two if it went with others and is not alone, or is kept.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	d.inboxes.Forget(d.channel, l.Claim.ID)
	d.breaks.parts(l.Claim)
	_, err := d.act(ctx, &call{verb: "leave", claim: l.Claim, keep: l.Keep})
	if err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) {
		d.failover.remove(l.Claim.ID)
	}
	if l.Keep > 0 && (err == nil || errors.Is(err, driver.ErrGone)) { // ErrGone after an unanswered Leave
		// The first waiting claim must notice that the end is now sooner. If this is lost, it notices when it enters again.
		_ = d.link.Query(ctx, d.statements.again, []any{[]byte(l.Claim.Name)}, func(pgx.Rows) error { return nil })
	}
	return err
}

// renewBatch is how many claims one transaction renews, so that others get a turn in between.
const renewBatch = 64

// Renew sends few statements, each for many claims.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	order := make([]int, 0, len(cs))
	for i, c := range cs {
		if c.Amend == nil {
			order = append(order, i)
		}
	}
	// Transactions that lock the rows of names in the same order cannot wait for each other in a circle.
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(cs[a].Name, cs[b].Name) })
	for part := range slices.Chunk(order, renewBatch) {
		d.renew(ctx, cs, answers, part)
	}
	for i, c := range cs {
		if c.Amend != nil {
			answers[i] = d.amend(ctx, c)
		}
	}
	return answers
}

// amend renews and changes a claim, in one statement.
func (d *Driver) amend(ctx context.Context, c *driver.Claim) (r driver.Renewal) {
	if d.revision < amendRevision {
		return driver.Renewal{Err: driver.ErrUnsupported}
	}
	if _, _, err := c.Amended(c.Weight, c.Record, true); err != nil { // a change that no claim can have
		plain := *c
		plain.Amend = nil
		if r = d.Renew(ctx, []*driver.Claim{&plain})[0]; r.Err == nil {
			r = driver.Renewal{Err: err}
		}
		return r
	}
	var (
		status, serverID string
		lease            int64
		have             []byte
		some             bool
	)
	err := d.link.Query(ctx, d.statements.amend, []any{
		[]byte(c.Name), []byte(c.ID), micros(c.TTL), micros(c.Wait), c.Amend.Weight, []byte(c.Record), []byte(c.Amend.Record),
	}, func(rows pgx.Rows) error {
		some = true
		return rows.Scan(&status, &lease, &have, &serverID)
	})
	switch {
	case err != nil:
		return driver.Renewal{Err: err}
	case !some:
		return driver.Renewal{Err: errShort}
	}
	d.failover.heard(serverID)
	if status == "gone" || d.failover.fell(c.ID) {
		d.failover.forget(c.ID)
		return driver.Renewal{Err: d.breaks.explain(c, d.failover.gone())}
	}
	if status != "ok" {
		// The function decided by its numbers, and Amended returns the same decision as an error.
		_, _, err = c.Amended(c.Weight, string(have), status != "waits")
		return driver.Renewal{Err: err}
	}
	d.failover.add(c)
	d.breaks.stands(c, c.Ticket, true)
	return driver.Renewal{TTL: span(lease)}
}

func (d *Driver) renew(ctx context.Context, cs []*driver.Claim, answers []driver.Renewal, part []int) {
	var (
		names, ids [][]byte
		ttls, wait []int64
		i          int
	)
	for _, at := range part {
		c := cs[at]
		names, ids = append(names, []byte(c.Name)), append(ids, []byte(c.ID))
		ttls, wait = append(ttls, micros(c.TTL)), append(wait, micros(c.Wait))
	}
	err := d.link.Query(ctx, d.statements.renew, []any{names, ids, ttls, wait}, func(rows pgx.Rows) error {
		var (
			status, serverID string
			lease            int64
			holds            bool
		)
		err := rows.Scan(&status, &lease, &holds, &serverID)
		d.failover.heard(serverID)
		answers[part[i]] = driver.Renewal{TTL: span(lease)}
		if status != "ok" || d.failover.fell(cs[part[i]].ID) {
			answers[part[i]] = driver.Renewal{Err: d.failover.gone()}
		} else {
			d.failover.add(cs[part[i]])
			d.breaks.stands(cs[part[i]], cs[part[i]].Ticket, holds)
		}
		i++
		return err
	})
	if err == nil && i == len(part) {
		for _, at := range part {
			if answers[at].Err != nil {
				d.failover.forget(cs[at].ID)
				answers[at].Err = d.breaks.explain(cs[at], answers[at].Err)
			}
		}
		return
	}
	if err == nil {
		err = errShort
	}
	for _, at := range part {
		answers[at] = driver.Renewal{Err: err}
	}
}

func micros(t time.Duration) int64 { return t.Microseconds() }

func span(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
