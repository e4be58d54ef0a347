package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

// passes is the short way of a holder that leaves: one text, and so one round trip, that takes its claim out of a queue, has
// the next one hold, commits, and rings for the client of that one. It does so if all claims of the queue are exclusive,
// none has run out or is kept, and the one that leaves is the only one that knows that it holds. Then [driver.Queue]
// would decide the same; else it changes nothing, and the long way decides.
//
// A variable of the session is set by each text before it is read. All but the first statement that reads go by the
// primary key, and the row of the name is locked before the claims are read, as in the long way. The last statement may
// fail, since nobody listens or since another user does. By then the change is committed, which the rows before it tell.
//
// It saves three round trips of four. On loopback, where what the server does is most of it, a hand-over takes 0.9 of the time
// of the long way: go test -run NONE -bench HandOver/held_20ms .
var passes = []string{
	"START TRANSACTION",
	"SELECT MAX(`queued`), MAX(`head`) INTO @stile_queued, @stile_head FROM `{prefix}name` " +
		"WHERE `hash` = %[1]v AND `name` = %[2]s FOR UPDATE",
	"SELECT IF({only}, MIN(`ticket`), NULL), IF({only}, MIN(IF(`told`, NULL, `ticket`)), NULL) INTO @stile_own, @stile_next " +
		"FROM `{prefix}claim` WHERE `hash` = %[1]v AND `ticket` >= @stile_head AND @stile_queued",
	"DELETE FROM `{prefix}claim` WHERE `hash` = %[1]v AND `ticket` = @stile_own AND @stile_next IS NOT NULL",
	"UPDATE `{prefix}claim` SET `told` = 1 WHERE `hash` = %[1]v AND `ticket` = @stile_next",
	"SELECT `id`, `client` INTO @stile_id, @stile_client FROM `{prefix}claim` WHERE `hash` = %[1]v AND `ticket` = @stile_next",
	"COMMIT",
	"SELECT COALESCE(@stile_queued, 0), COALESCE(@stile_next, 0), @stile_id, @stile_client",
	"KILL QUERY IS_USED_LOCK(IF(@stile_next IS NULL OR @stile_client = %[4]s, 'stile-bell-nobody', " + bellOf + "))",
}

// only says of the claims of a queue that each is live and exclusive, and that the one which leaves is at the head and the
// only one that holds.
const only = "COUNT(*) = SUM(`weight` = {all} AND `capacity` = {all} AND NOT `departed` AND `ends` > {clock}) " +
	"AND SUM(`told`) = 1 AND MIN(`ticket`) = MIN(IF(`told` AND `id` = %[3]s, `ticket`, NULL))"

// bellOf is [bellName] in the words of the server.
const bellOf = "CONCAT('stile-bell-', LEFT(SHA2(@stile_client, 256), 32))"

// A passed lock is what came of the short way.
type passed struct {
	queued bool          // the claims of the name are in rows of their own
	next   *driver.Entry // the claim that holds now; nil: nothing was changed
}

// pass has a holder leave by the short way, if the queue is one for it.
func (s *store) pass(ctx context.Context, c *driver.Claim) (p passed, err error) {
	if !s.batches || s.passes == "" {
		return p, nil
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return p, err
	}
	defer conn.Close()
	t := &transaction{s: s, conn: conn}
	text := fmt.Sprintf(s.passes, keyOf(c.Name), quote([]byte(c.Name)), quote([]byte(c.ID)), quote([]byte(c.Client)))
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return p, s.passing(ctx, t, err)
	}
	defer rows.Close()
	var next driver.Entry
	if !rows.Next() {
		return p, s.passing(ctx, t, errors.Join(rows.Err(), errShort))
	}
	var id, client []byte
	if err := rows.Scan(&p.queued, &next.Ticket, &id, &client); err != nil {
		return p, s.passing(ctx, t, err)
	}
	if next.Ticket != 0 {
		next.ID, next.Client = string(id), string(client)
		p.next = &next
	}
	_ = rows.NextResultSet() // until the ring, or its error
	if err := rows.Err(); err != nil && number(err) == 0 {
		drop(conn)
	}
	return p, nil
}

// passing says what an error of the short way means. It comes from a statement up to the commit.
func (s *store) passing(ctx context.Context, t *transaction, err error) error {
	dropped := faultOf(err).drop
	tried := errors.Is(err, sqldriver.ErrBadConn) || number(err) != 0 && again(err)
	if err = s.judged(ctx, t.conn, err); !dropped {
		t.undo(ctx)
	}
	if tried {
		return nil // the long way has a remedy for it
	}
	return err
}

// passing fills the short way for the tables of a place, on connections whose transactions are read committed or not.
func (p place) passing(committed bool) string {
	text := strings.Join(passes, "; ")
	if !committed {
		text = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; " + text
	}
	return strings.ReplaceAll(p.fill(strings.ReplaceAll(text, "{only}", only)), "{all}", fmt.Sprint(driver.All))
}
