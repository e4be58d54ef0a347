package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stilelock/stile/driver"
)

// begin asks the server for the first time, and reports whether it has given the lock.
func (s *session) begin(own *sessionClaim, try bool) (held bool) {
	defer close(own.answered)
	ctx, cancel := s.bound(0)
	defer cancel()
	conn, got, sent, err := s.firstTry(ctx, own)
	switch {
	case err != nil && conn != nil:
		s.claims.waitsOn(own, conn)
		s.claims.move(own, claimDoubtful)
		own.failed = err
		s.proveLater(own, conn)
	case err != nil:
		own.failed = err
		s.claims.move(own, claimOver)
	case got:
		switch held = s.hold(own, conn, sent); {
		case !held && try:
			if _, own.failed = s.giveUp(own); own.failed == nil {
				own.failed = driver.Unsent(driver.Unreachable(errEnded))
			}
		case !held:
			s.life.Go(func() { s.wait(own) })
		}
	case try:
		s.claims.move(own, claimOver)
	default:
		s.life.Go(func() { s.wait(own) })
	}
	return held
}

// firstTry has one try to get the lock of a claim, and awaits a connection for that while nobody has the lock: that the client has
// none to spare does not say that somebody else has the lock.
func (s *session) firstTry(ctx context.Context, own *sessionClaim) (conn *sessionConn, got bool, sent time.Time, err error) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		if conn, got, sent, err = s.try(ctx, own); err != nil || !sent.IsZero() {
			return conn, got, sent, err
		}
		switch owner, err := s.owner(ctx, own); {
		case err != nil:
			return nil, false, sent, driver.NotYet(s.explain(ctx, err))
		case owner != unowned:
			return nil, false, sent, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, false, sent, driver.NotYet(s.explain(ctx, errBusy))
		}
	}
}

var (
	errEnded = errors.New("the connection ended when it had got the lock")
	errBusy  = errors.New("all connections of the client wait for locks or have this one; pool_max_conns allows more")
)

// try asks for the lock of a claim once, and returns the connection that has it now and when it was asked. With an error it
// returns a connection that may have the lock, and is not proven to be gone; nil if nothing is left. The time is zero if there
// was no connection to ask on.
func (s *session) try(ctx context.Context, own *sessionClaim) (conn *sessionConn, got bool, sent time.Time, err error) {
	for {
		if conn, err = s.take(ctx, own); err != nil || conn == nil {
			return nil, false, time.Time{}, err
		}
		sent = time.Now()
		answer, err := conn.ask(ctx, getLock(own, 0))
		switch {
		case errors.Is(err, sqldriver.ErrBadConn): // it was not sent
			s.condemn(conn)
		case err != nil:
			proven := s.end(ctx, conn)
			if err = s.explain(ctx, err); proven {
				return nil, false, sent, driver.Unsent(driver.Unreachable(err))
			}
			return conn, false, sent, err
		case answer[0] == 1:
			return conn, true, sent, nil
		case answer[0] == 0:
			s.free(conn, own)
			return nil, false, sent, nil
		default:
			s.condemn(conn)
			return nil, false, sent, driver.Refused(errors.New("the server could not tell whether the lock is free (GET_LOCK is NULL)"))
		}
	}
}

func getLock(c *sessionClaim, wait time.Duration) string {
	return fmt.Sprintf("SELECT GET_LOCK('%s', %d), CONNECTION_ID()", c.lock, int(wait/time.Second))
}

// hold has a claim hold on a connection that has got its lock, and reports whether it does. Else the connection has the lock
// no more, or is condemned: a claim that is not over then waits on.
func (s *session) hold(own *sessionClaim, conn *sessionConn, then time.Time) bool {
	for {
		holds, over, ended := s.holdOn(own, conn, then)
		switch {
		case over:
			s.unlock(own, conn)
			return false
		case ended:
			return false
		case holds:
			s.life.Go(func() { s.keep(own, conn) })
			return true
		}
		// The lease begins with what the server hears after the claim has entered.
		ctx, cancel := s.bound(0)
		then = time.Now()
		_, err := conn.ask(ctx, "SELECT CONNECTION_ID()")
		cancel()
		if err != nil {
			s.claims.waitsOn(own, conn)
			s.condemn(conn)
			return false
		}
	}
}

const (
	leastPause = 4 * time.Millisecond // between two tries of a claim for which no connection is left to wait on
	mostPause  = 100 * time.Millisecond
)

// wait has a claim wait until it has its lock, or is over.
func (s *session) wait(own *sessionClaim) {
	for pause := leastPause; !s.waitOnce(own); pause = min(2*pause, mostPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-own.over:
		case <-s.life.Context().Done():
		}
		timer.Stop()
		if s.expired(own) && !s.doubtful(own) {
			s.claims.lapse(own)
		}
		if state, _ := s.claims.of(own); state != claimWaiting || s.life.Context().Err() != nil {
			return
		}
	}
}

// waitOnce waits on a connection until the claim holds or is over, or tries once. It is false if it was in vain.
//
// A claim waits on one connection or has one try under way, and not both: else one of the two would get the lock, and the other
// one be told that somebody else has it.
func (s *session) waitOnce(own *sessionClaim) (done bool) {
	ctx, cancel := s.bound(0)
	defer cancel()
	if !s.clean(ctx, own) {
		return false
	}
	conn, err := s.takeAlone(ctx, own)
	if err != nil {
		return false
	}
	if conn != nil {
		return s.waitOn(own, conn)
	}
	return s.tryAgain(own)
}

// tryAgain tries to get the lock of a claim that waits, unless it waits on a connection, and reports whether the claim holds now
// or is over.
func (s *session) tryAgain(own *sessionClaim) bool {
	own.busy.Lock()
	defer own.busy.Unlock()
	switch state, waits := s.claims.of(own); {
	case state != claimWaiting:
		return true
	case s.waitsOn(waits, own):
		return false
	}
	ctx, cancel := s.bound(0)
	defer cancel()
	if !s.clean(ctx, own) {
		return false
	}
	conn, got, sent, err := s.try(ctx, own)
	if err != nil && conn != nil {
		s.claims.waitsOn(own, conn)
	}
	return err == nil && got && s.hold(own, conn, sent)
}

// doubtful reports whether a connection that is condemned may have the lock of a claim that waits.
func (s *session) doubtful(own *sessionClaim) bool {
	_, conn := s.claims.of(own)
	return s.isCondemned(conn)
}

// clean has no connection that is condemned have the lock of a claim that waits, and reports whether that is proven. Only then
// the claim asks for it again.
func (s *session) clean(ctx context.Context, own *sessionClaim) bool {
	if !s.doubtful(own) {
		return true
	}
	_, conn := s.claims.of(own)
	return s.bury(ctx, conn) == nil
}

// begins notes that a claim waits on a connection from now on. It is false if the claim does not wait, or a connection that is
// condemned may have its lock.
func (s *session) begins(own *sessionClaim, conn *sessionConn) bool {
	own.busy.Lock()
	defer own.busy.Unlock()
	return !s.doubtful(own) && s.claims.waitsOn(own, conn)
}

// waitOn waits on one connection, until the claim holds, is over, or the connection fails: then it returns false.
func (s *session) waitOn(own *sessionClaim, conn *sessionConn) (done bool) {
	if !s.begins(own, conn) {
		s.free(conn, own)
		return false
	}
	for {
		sent := time.Now()
		ctx, cancel := s.bound(waitStep)
		got, err := conn.ask(ctx, getLock(own, waitStep))
		cancel()
		switch {
		case err != nil || got[0] < 0:
			s.condemn(conn)
			return false
		case got[0] == 1:
			return s.hold(own, conn, sent)
		}
		if s.expired(own) {
			s.claims.lapse(own)
		}
		if !s.claims.waitsOn(own, conn) {
			s.free(conn, own)
			return true
		}
	}
}

func (s *session) expired(own *sessionClaim) bool {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return !time.Now().Before(own.ends)
}

// look finds out whether a claim that waits can have its lock now: by a try, or, if it waits in the server, by asking who has
// the lock. If nobody has it, the request that is to wait for it is under way; if the claim has it, the news of that is.
func (s *session) look(own *sessionClaim) {
	ctx, cancel := s.bound(0)
	defer cancel()
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		state, waits := s.claims.of(own)
		if state != claimWaiting {
			return
		}
		if !s.waitsOn(waits, own) {
			s.tryAgain(own)
			if state, waits = s.claims.of(own); state != claimWaiting || !s.waitsOn(waits, own) {
				return
			}
		}
		if owner, err := s.owner(ctx, own); err != nil || owner != waits.id && owner != unowned {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-own.settled:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// unowned is the answer of IS_USED_LOCK if no connection has the lock, as a number.
const unowned = math.MinInt64

// owner asks which connection has the lock of a claim. It is unowned as well if no connection is left to ask on.
func (s *session) owner(ctx context.Context, own *sessionClaim) (id int64, err error) {
	conn, err := s.takeAny(ctx)
	if err != nil || conn == nil {
		return unowned, err
	}
	defer conn.asks.Add(-1)
	got, err := conn.ask(ctx, "SELECT IS_USED_LOCK('"+own.lock+"'), CONNECTION_ID()")
	if err != nil {
		s.condemn(conn)
		return unowned, err
	}
	return got[0], nil
}
