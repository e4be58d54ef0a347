package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
)

// calls are the statements of the verbs.
type calls struct{ do, renew, list, queue, waiting, mark, clean, tidy string }

// newCalls returns the statements; renewing tells the era too, which is an expression.
func newCalls(p place, era string) calls {
	const (
		answer  = `status, ticket, holds, lease, ahead, retry, have, b_ticket, b_weight, b_holds, b_left, b_since, b_remaining, b_record`
		columns = `"{schema}".{prefix}now(), name, ticket, weight, capacity, since, ends, delay, told, departed, record`
		claims  = `SELECT name, ticket, weight, capacity, since, ends, delay, told, departed, record FROM "{schema}".{prefix}claim
UNION ALL SELECT name, last, weight, capacity, since, ends, delay, true, false, record FROM "{schema}".{prefix}name WHERE ends > 0`
		renew = ` FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) WITH ORDINALITY c (name, id, ttl, wait, i),
LATERAL "{schema}".{prefix}do('renew', c.name, c.id, '', NULL, '', '', 0, 0, c.ttl, c.wait, 0, 0, 0, false, false) r ORDER BY c.i`
	)
	return calls{
		do: p.fill(`SELECT ` + answer + ` FROM "{schema}".{prefix}do($1::text, $2::bytea, $3::bytea, $4::bytea, $5::text, $6::bytea, $7::bytea,
$8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::boolean, $16::boolean)`),
		renew: p.fill(`SELECT r.status, r.lease, ` + era + renew),
		list: p.fill(`SELECT ` + columns + ` FROM (` + claims + `) claims
WHERE name >= $1::bytea AND ($2::bytea IS NULL OR name < $2::bytea) ORDER BY name, ticket`),
		queue: p.fill(`SELECT ` + columns + ` FROM (` + claims + `) claims WHERE name = $1::bytea ORDER BY ticket`),
		waiting: p.fill(`SELECT w.i, coalesce(c.told AND NOT c.departed AND c.ends > "{schema}".{prefix}now(), false), c.id IS NULL
FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) WITH ORDINALITY w (name, ticket, id, i)
LEFT JOIN "{schema}".{prefix}claim c ON c.name = w.name AND c.ticket = w.ticket AND c.id = w.id`),
		mark: p.fill(`INSERT INTO "{schema}".{prefix}name AS n (name, last, head, watched)
VALUES ($1::bytea, 0, 0, "{schema}".{prefix}now() + $2::bigint)
ON CONFLICT (name) DO UPDATE SET watched = greatest(n.watched, excluded.watched)`),
		clean: p.fill(`SELECT "{schema}".{prefix}clean($1::bigint, $2::integer)`),
		tidy:  p.fill(`SELECT "{schema}".{prefix}tidy($1::bigint, $2::bigint, $3::integer)`),
	}
}

// A deed is what the function does to a queue.
type deed struct {
	verb    string
	claim   *driver.Claim
	channel *string // nil leaves it as it is
	keep    time.Duration
}

// An answer is what came of it.
type answer struct {
	status         string
	ticket         int64
	holds          bool
	lease, retry   int64
	ahead, have    int64
	blocker        driver.Standing
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

// act calls the function. An error that it answers is one of the contract's.
func (d *Driver) act(ctx context.Context, g *deed) (*answer, error) {
	c := g.claim
	a := &answer{}
	err := d.link.Query(ctx, d.calls.do, []any{
		g.verb, []byte(c.Name), []byte(c.ID), []byte(c.Client), g.channel, []byte(c.Owner), []byte(c.Record),
		c.Weight, c.Capacity, micros(c.TTL), micros(c.Wait), micros(c.Delay), micros(g.keep),
		c.Ticket, c.Try, c.Reclaim && c.Owner != "",
	}, func(rows pgx.Rows) error {
		b := &a.blocker
		return rows.Scan(&a.status, &a.ticket, &a.holds, &a.lease, &a.ahead, &a.retry, &a.have,
			&b.Ticket, &b.Weight, &b.Holds, &b.Left, &a.since, &a.remains, &a.record)
	})
	switch {
	case err != nil:
		return nil, err
	case a.status == "gone":
		return nil, d.alerts.gone()
	case a.status == "capacity":
		return nil, &driver.CapacityError{Have: a.have, Want: c.Capacity}
	}
	return a, nil
}

var errShort = errors.New("postgres answered for fewer claims than it was asked for")

// Enter is one round trip.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	channel := ""
	if !c.Try && d.listener.expect(c.ID) {
		// From here on the claim may be told that it holds, even before the answer is here.
		channel = d.channel
	}
	a, err := d.act(ctx, &deed{verb: "enter", claim: c, channel: &channel})
	if channel != "" && (err != nil || a.holds) {
		d.listener.forget(c.ID)
	}
	if err != nil {
		return driver.Place{}, err
	}
	if a.ticket != 0 {
		d.alerts.add(c.ID)
	}
	return a.place(), nil
}

// Leave is one round trip.
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	d.listener.forget(l.Claim.ID)
	_, err := d.act(ctx, &deed{verb: "leave", claim: l.Claim, keep: l.Keep})
	if err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) {
		d.alerts.remove(l.Claim.ID)
	}
	return err
}

// Break is [driver.Breaker].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (driver.Standing, error) {
	a, err := d.act(ctx, &deed{verb: "break", claim: &driver.Claim{Name: b.Name, Ticket: b.Ticket}})
	if err != nil {
		return driver.Standing{}, err
	}
	a.finish()
	return a.blocker, nil
}

// renewBatch is how many claims are renewed in one transaction, so that others get a turn in between.
const renewBatch = 64

// Renew sends few statements, each for many claims.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	order := make([]int, len(cs))
	for i := range order {
		order[i] = i
	}
	// Transactions that lock the rows of names in one order cannot wait for each other in a circle.
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(cs[a].Name, cs[b].Name) })
	for part := range slices.Chunk(order, renewBatch) {
		d.renew(ctx, cs, answers, part)
	}
	return answers
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
	err := d.link.Query(ctx, d.calls.renew, []any{names, ids, ttls, wait}, func(rows pgx.Rows) error {
		var (
			status, era string
			lease       int64
		)
		err := rows.Scan(&status, &lease, &era)
		d.alerts.heard(era)
		answers[part[i]] = driver.Renewal{TTL: span(lease)}
		if status != "ok" || d.alerts.fell(cs[part[i]].ID) {
			d.alerts.remove(cs[part[i]].ID)
			answers[part[i]] = driver.Renewal{Err: d.alerts.gone()}
		}
		i++
		return err
	})
	if err == nil && i == len(part) {
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
