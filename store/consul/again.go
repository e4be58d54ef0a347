package consul

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
)

// enterAgain finds a claim of this client in the queue and renews its lease. If the claim is not there and has no ticket, it
// may enter as a new one.
func (d *Driver) enterAgain(ctx context.Context, c *driver.Claim, lc *localClaim) (p driver.Place, anew bool, err error) {
	var q *queue
	gone := d.sessions.freshen(ctx, lc.session)
	if gone == nil {
		var how end
		if p, how, q, err = d.stand(ctx, seatOf(c, lc), lc, nil); how != endGone {
			return p, false, err
		}
		gone = d.goneWith(ctx, lc, q.find(c.ID))
	}
	if !errors.Is(gone, driver.ErrGone) {
		return p, false, gone
	}
	if anew = c.Ticket == 0 && !q.kept(c.ID); anew {
		// The request for its key may still be on its way. It needs the session, so the session ends.
		if err := d.sessions.end(ctx, lc.session); err != nil {
			return p, false, err
		}
	}
	d.claims.finish(lc, claimLost)
	if anew {
		return p, true, nil
	}
	p, err = d.visit(ctx, c, q, lc.session.id) // another client may have entered it, or entered it again
	if errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
		err = gone
	}
	return p, false, err
}

// goneWith returns the error of a claim whose session has no key in the queue. ErrSession is the better reason if the
// session is over.
func (d *Driver) goneWith(ctx context.Context, lc *localClaim, other *entry) error {
	if other == nil && errors.Is(d.sessions.prolong(ctx, lc.session), driver.ErrSession) {
		return driver.ErrSession
	}
	return driver.ErrGone
}

// visit returns the place of a claim that another client entered, for one call. It does not put the claim into the table;
// only [Driver.Renew] does that.
func (d *Driver) visit(ctx context.Context, c *driver.Claim, q *queue, had string) (driver.Place, error) {
	lc, q, err := d.visitor(ctx, c, q, had)
	if err != nil {
		return driver.Place{}, err
	}
	p, _, _, err := d.stand(ctx, seatOf(c, lc), lc, q)
	return p, err
}

// visitor returns a claim that another client entered, and renews its lease. If this client had entered the claim before,
// had is the session that the claim had then: a key of that session does not count.
func (d *Driver) visitor(ctx context.Context, c *driver.Claim, q *queue, had string) (*localClaim, *queue, error) {
	if q == nil {
		var err error
		if q, err = d.look(ctx, c.Name); err != nil {
			return nil, nil, err
		}
	}
	e := q.find(c.ID)
	if e == nil || e.Left || e.Session == had {
		return nil, q, driver.ErrGone
	}
	s, err := d.sessions.joinSession(ctx, e.Session)
	switch {
	case err != nil:
		return nil, q, err
	case s == nil:
		return nil, q, driver.ErrSession
	}
	return newLocalClaim(c, folderOf(d.prefix, c.Name), s, claimUnsure), q, nil
}
