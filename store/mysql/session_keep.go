package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// keep keeps a claim that holds or is kept: it shows the server that the client lives, and ends the claim when its time is
// over.
func (s *session) keep(own *sessionClaim, conn *sessionConn) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		ends := s.claims.until(own)
		conn.statement.Lock()
		due := conn.spoke.Add(s.timeout / 3)
		conn.statement.Unlock()
		switch now := time.Now(); {
		case !now.Before(ends) && s.expire(own):
			return
		case !now.Before(due):
			_, _ = s.beat(own) // who depends on it is told
			due = time.Now().Add(s.timeout / 3)
		}
		if ends = s.claims.until(own); ends.Before(due) {
			due = ends
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-own.kick:
		case <-own.over:
			return
		case <-s.life.Context().Done():
			return
		}
	}
}

// beat has the server say that the lock of a claim is still its own, and reports whether it did. One that waits has none.
func (s *session) beat(own *sessionClaim) (held bool, err error) {
	own.busy.Lock()
	defer own.busy.Unlock()
	state, conn := s.claims.of(own)
	if state != claimHolding && state != claimKept {
		return false, nil
	}
	ctx, cancel := s.bound(0)
	defer cancel()
	got, err := conn.ask(ctx, "SELECT IS_USED_LOCK('"+own.lock+"'), CONNECTION_ID()")
	if err == nil && got[0] == conn.id {
		return true, nil
	}
	s.condemn(conn)
	if err == nil {
		return false, driver.ErrSession
	}
	return false, driver.Unreachable(s.explain(ctx, err))
}

// unlock frees the lock that a connection has got for a claim which is over.
func (s *session) unlock(own *sessionClaim, conn *sessionConn) {
	ctx, cancel := s.bound(0)
	defer cancel()
	if got, err := conn.ask(ctx, releaseLock(own)); err != nil || got[0] != 1 {
		s.condemn(conn)
		return
	}
	s.free(conn, own)
}

func releaseLock(c *sessionClaim) string {
	return "SELECT RELEASE_LOCK('" + c.lock + "'), CONNECTION_ID()"
}

// release ends a claim that holds or is kept.
func (s *session) release(own *sessionClaim) error {
	own.busy.Lock()
	defer own.busy.Unlock()
	ctx, cancel := s.bound(0)
	defer cancel()
	state, conn := s.claims.of(own)
	switch state {
	case claimDoubtful:
		return s.prove(own, conn, errDoubtful)
	case claimOver:
		return s.claims.why(own.id)
	}
	return s.freed(ctx, own, conn)
}

// expire ends a claim whose time is over, and reports whether it is. A claim that is renewed meanwhile goes on: it is looked
// at when nothing is under way for it, and from then on it is doubtful, which is not renewed.
func (s *session) expire(own *sessionClaim) bool {
	own.busy.Lock()
	defer own.busy.Unlock()
	ctx, cancel := s.bound(0)
	defer cancel()
	conn, over := s.claims.expire(own, time.Now())
	if conn != nil {
		_ = s.freed(ctx, own, conn) // the state of the claim has it
	}
	return over
}

// expiring waits while the server is told of the end of a claim.
func (s *session) expiring(id string) {
	if own := s.claims.ending(id); own != nil {
		own.busy.Lock()
		defer own.busy.Unlock()
	}
}

// freed has the server free the lock of a claim that holds, is kept, or was until now.
func (s *session) freed(ctx context.Context, own *sessionClaim, conn *sessionConn) error {
	got, err := conn.ask(ctx, releaseLock(own))
	switch {
	case err != nil:
		s.claims.move(own, claimDoubtful)
		return s.prove(own, conn, s.explain(ctx, err))
	case got[0] != 1:
		s.condemn(conn)
		s.claims.move(own, claimOver)
		return driver.ErrSession
	}
	s.claims.move(own, claimOver)
	s.free(conn, own)
	return nil
}

var errDoubtful = driver.Unreachable(errors.New("it is not known yet whether the server has freed the lock"))

// prove ends the connection of a claim that is doubtful. It returns an error if that is not proven.
func (s *session) prove(own *sessionClaim, conn *sessionConn, err error) error {
	ctx, cancel := s.bound(0)
	defer cancel()
	if s.end(ctx, conn) {
		s.claims.move(own, claimOver)
		return nil
	}
	s.proveLater(own, conn)
	return driver.Unknown(err)
}

// proveLater has a claim that is doubtful be over once its condemned connection is proven to be gone.
func (s *session) proveLater(own *sessionClaim, conn *sessionConn) {
	s.life.Go(func() {
		for s.bury(s.life.Context(), conn) != nil {
			timer := time.NewTimer(mostPause)
			select {
			case <-timer.C:
			case <-own.over: // somebody else has proven it
				timer.Stop()
				return
			case <-s.life.Context().Done():
				timer.Stop()
				return
			}
		}
		s.claims.move(own, claimOver)
	})
}
