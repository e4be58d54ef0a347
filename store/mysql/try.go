package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
)

// tryReads returns the result of the previous statement, that is whether the claim entered and with which ticket, and reads
// the queue.
const tryReads = "SELECT ROW_COUNT(), LAST_INSERT_ID(), {clock}," + nameColumns + claimColumns + queues + "WHERE n.`hash` = "

// A tried is the result of the short way of a try.
type tried struct {
	decided bool // false: nothing was changed, and the long way decides
	place   driver.Place
	err     error // the queue's error for the claim
}

// try enters a claim with Try by one text and so in one round trip. It enters like a lone claim. If it cannot, the text
// reads the queue, which usually shows that the claim would have to wait. The text writes only by the statement of
// [store.enterLone]. Its read sees committed data of a server that accepts writes, since otherwise that statement would have
// failed. If [driver.Queue] would change the queue, for example because a claim in it has run out, the long way does so.
//
// It saves two of three round trips: without it, over a link with one of 4.8 ms, a try of a name that another client holds
// takes 2.9 times as long, and twice the server's processor.
func (s *store) try(ctx context.Context, c *driver.Claim) (t tried, err error) {
	if !s.batches || s.owned == nil || !fits(c.ID, c.Client, c.Owner, c.Record) {
		return t, nil
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return t, err
	}
	defer conn.Close()
	read, k := reader{rows: map[key]*row{}}, keyOf(c.Name)
	changed, given := int64(-1), int64(0) // the result for the entered claim, once known
	err = s.query(ctx, conn, text{s.lonely(c), s.place.fill(tryReads) + k.String()}, func(r *sql.Rows) error {
		return read.row(r, &changed, &given)
	})
	switch {
	case changed > 0: // any error came after the claim entered
		if err != nil {
			drop(conn)
		}
		return tried{decided: true, place: driver.Place{Ticket: given, Holds: true, TTL: c.TTL}}, nil
	case err == nil:
		err = check(read.rows, []string{c.Name})
	case changed == 0:
	case errors.Is(err, sqldriver.ErrBadConn) || number(err) != 0 && (again(err) || undone(err) && !faultOf(err).drop):
		return t, nil // the long way can deal with it, or gets the same error; it finds a claim that may have entered
	default:
		return t, s.judged(ctx, conn, err)
	}
	if err != nil {
		drop(conn)
		return t, s.definite(ctx, err)
	}
	return refusal(read.rows[k], read.now, c), nil
}

// refusal returns the answer to a try that changes nothing in the queue.
func refusal(n *row, now int64, c *driver.Claim) (t tried) {
	if n == nil {
		return t
	}
	before := slices.Clone(n.queue.Entries)
	t.place, t.err = n.queue.Enter(now, stamp(now), c)
	n.queue.Wake(now)
	t.decided = slices.Equal(n.queue.Entries, before)
	return t
}
