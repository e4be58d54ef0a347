package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// Enter implements [driver.Driver]. It takes one statement and one round trip if no other claim is in the queue, and one
// round trip for a try by a client that was refused the last time.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := d.enter(ctx, c)
	if err == nil && p.Holds {
		d.Holds(c, p.Ticket)
	}
	return p, err
}

func (d *Driver) enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	met := d.store.contended.entering(c.Name)
	if c.Ticket == 0 && !met.Load() {
		ticket, err := d.store.enterLone(ctx, c)
		if err != nil {
			return driver.Place{}, err
		}
		if ticket != 0 {
			return driver.Place{Ticket: ticket, Holds: true, TTL: c.TTL}, nil
		}
	}
	if c.Ticket == 0 && c.Try {
		t, err := d.store.try(ctx, c)
		if err != nil {
			return driver.Place{}, err
		}
		if t.decided {
			met.Store(!t.place.Holds)
			return t.place, t.err
		}
	}
	return d.Driver.Enter(ctx, c)
}

// Leave implements [driver.Driver]. It takes one round trip if no other claim is in the queue, or if the claim holds and all
// claims of the queue are exclusive.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	d.Parts(l.Claim.ID)
	if l.Keep != 0 {
		return d.Driver.Leave(ctx, l)
	}
	behind := d.store.contended.leaving(l.Claim.Name)
	if behind.Load() {
		p, err := d.store.pass(ctx, l.Claim)
		if err != nil {
			return err
		}
		if p.next != nil {
			d.Woke(*p.next)
			return nil
		}
		if p.queued {
			return d.Driver.Leave(ctx, l)
		}
		behind.Store(false)
	}
	left, err := d.store.leaveLone(ctx, l.Claim)
	if err != nil || left {
		return err
	}
	return d.Driver.Leave(ctx, l)
}

// The statements of a lone claim. The ticket is returned as the last insert id.
const (
	loneEnters = "UPDATE `{prefix}name` SET " +
		"`last` = LAST_INSERT_ID(GREATEST(`last` + 1, IF({clock} < 1 << 52, {clock}, 0))), " +
		"`id` = %s, `client` = %s, `owner` = %s, `record` = %s, `weight` = %d, `capacity` = %d, " +
		"`since` = {clock}, `ends` = {clock} + %d, `delay` = %d " +
		"WHERE `hash` = %v AND `name` = %s AND `last` > 0 AND NOT `queued` AND `ends` = 0"
	loneLeaves = "UPDATE `{prefix}name` SET `ends` = 0 WHERE `hash` = %v AND `name` = %s AND `id` = %s AND `ends` > {clock}"
)

// enterLone enters a claim into an empty queue by changing only the row of its name. The ticket is 0 if the queue may not be
// empty.
//
// One statement is safe here: it decides only by the row that it changes, and the server reads this row again after a wait
// for its lock.
func (s *store) enterLone(ctx context.Context, c *driver.Claim) (ticket int64, err error) {
	if !fits(c.ID, c.Client, c.Owner, c.Record) {
		return 0, nil // the long way refuses it
	}
	result, err := s.lone(ctx, s.lonely(c))
	if changed, err := altered(result, err); err != nil || !changed {
		return 0, err
	}
	return result.LastInsertId()
}

// lonely returns the statement by which a claim enters an empty queue.
func (s *store) lonely(c *driver.Claim) string {
	return fmt.Sprintf(s.place.fill(loneEnters), quote([]byte(c.ID)), quote([]byte(c.Client)), quote([]byte(c.Owner)), quote([]byte(c.Record)),
		c.Weight, c.Capacity, c.TTL.Microseconds(), c.Delay.Microseconds(), keyOf(c.Name), quote([]byte(c.Name)))
}

// leaveLone removes a claim that is alone in the row of its name, and reports whether it did.
func (s *store) leaveLone(ctx context.Context, c *driver.Claim) (bool, error) {
	return altered(s.lone(ctx, fmt.Sprintf(s.place.fill(loneLeaves), keyOf(c.Name), quote([]byte(c.Name)), quote([]byte(c.ID)))))
}

func altered(result sql.Result, err error) (bool, error) {
	if err != nil || result == nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// lone runs a statement that is a transaction of its own. The result is nil if the statement was not run, or was undone, for
// a reason that the long way can handle.
func (s *store) lone(ctx context.Context, statement string) (sql.Result, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	result, err := conn.ExecContext(ctx, statement)
	if err == nil {
		return result, nil
	}
	if errors.Is(err, sqldriver.ErrBadConn) || number(err) != 0 && again(err) {
		return nil, nil
	}
	return nil, s.judged(ctx, conn, err)
}
