package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stilelock/stile/driver"
)

// joins is the short way of a claim that enters behind others: one text, and so one round trip, that gives it a ticket, puts
// it at the tail, and commits. It does so if the claim and all of the queue are exclusive, none of them has run out or is
// kept, the first one knows that it holds, and the claim is not there yet. Then [driver.Queue] would decide the same; else it
// changes nothing, and the long way decides.
//
// So the row of the name is not locked for as long as a client takes to answer, while others want to pass the lock on.
var joins = []string{
	"START TRANSACTION",
	"SELECT MAX(`queued`), MAX(`head`), MAX(`last`) INTO @stile_queued, @stile_head, @stile_last FROM `{prefix}name` " +
		"WHERE `hash` = %[1]v AND `name` = %[2]s FOR UPDATE",
	"SELECT IF({calm}, GREATEST(@stile_last + 1, IF({clock} < 1 << 52, {clock}, 0)), NULL), {clock}, COUNT(*), MIN(`ticket`), " +
		"MIN(CONCAT({ticket}, {since}, {ends}, `record`)), MAX(CONCAT({ticket}, {gone})) " +
		"INTO @stile_ticket, @stile_now, @stile_ahead, @stile_head, @stile_first, @stile_before " +
		"FROM `{prefix}claim` WHERE `hash` = %[1]v AND `ticket` >= @stile_head AND @stile_queued",
	"INSERT INTO `{prefix}claim` (`hash`, `ticket`, `id`, `client`, `owner`, `record`, `weight`, `capacity`, `since`, `ends`, `delay`, " +
		"`told`, `departed`) SELECT %[1]v, @stile_ticket, %[3]s, %[4]s, %[5]s, %[6]s, {all}, {all}, @stile_now, @stile_now + %[7]d, %[8]d, 0, 0 " +
		"FROM DUAL WHERE @stile_ticket IS NOT NULL",
	"UPDATE `{prefix}name` SET `last` = @stile_ticket, `head` = @stile_head WHERE `hash` = %[1]v AND @stile_ticket IS NOT NULL",
	"COMMIT",
	"SELECT COALESCE(@stile_ticket, 0), @stile_now, @stile_ahead, @stile_first, @stile_before",
}

// calm says of the claims of a queue that each is live, exclusive and another than the one that enters, and that the first one
// and no other holds.
const calm = "COUNT(*) = SUM({alive} AND `id` <> %[3]s) AND SUM(`told`) = 1 AND MIN(`ticket`) = MIN(IF(`told`, `ticket`, NULL))"

// joinable reports whether a claim may enter by the short way.
func (s *store) joinable(c *driver.Claim) bool {
	return s.batches && s.joins != "" && c.Ticket == 0 && !c.Try && !c.Reclaim && c.Weight == driver.All && c.Capacity == driver.All &&
		fits(c.ID, c.Client, c.Owner, c.Record)
}

// join has a claim enter by the short way, if the queue is one for it. Without a ticket, nothing was changed.
func (s *store) join(ctx context.Context, c *driver.Claim) (p driver.Place, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return p, err
	}
	defer conn.Close()
	lull := s.bell.now()
	t := &transaction{s: s, conn: conn}
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(s.joins, keyOf(c.Name), quote([]byte(c.Name)), quote([]byte(c.ID)), quote([]byte(c.Client)),
		quote([]byte(c.Owner)), quote([]byte(c.Record)), c.Wait.Microseconds(), c.Delay.Microseconds()))
	if err != nil {
		return p, s.passing(ctx, t, err)
	}
	defer rows.Close()
	if !rows.Next() {
		return p, s.passing(ctx, t, errors.Join(rows.Err(), errShort))
	}
	var (
		ticket        int64
		now, ahead    *int64
		first, before []byte
	)
	if err := rows.Scan(&ticket, &now, &ahead, &first, &before); err != nil {
		drop(conn) // what was committed is not known
		return p, s.explain(ctx, err)
	}
	if ticket == 0 {
		return p, nil
	}
	s.bell.enters(c.ID, lull)
	return behind(ticket, *now, int(*ahead), first, before, c.Wait), nil
}

// behind is the place of a claim that has entered behind others, of which the first has the lock.
func behind(ticket, now int64, ahead int, first, before []byte, ttl time.Duration) driver.Place {
	p := driver.Place{Ticket: ticket, TTL: ttl, Ahead: ahead}
	next := func(text *[]byte) int64 {
		if len(*text) < digits {
			return now
		}
		n, _ := strconv.ParseInt(string((*text)[:digits]), 10, 64)
		*text = (*text)[digits:]
		return n
	}
	since := func(t int64) time.Duration { return time.Duration(now-t) * time.Microsecond }
	b := &p.Blocker
	b.Ticket, b.Since, b.Remaining = next(&first), since(next(&first)), -since(next(&first))
	b.Weight, b.Holds, b.Record = driver.All, true, string(first)
	next(&before) // its ticket
	p.Retry = -since(next(&before))
	return p
}
