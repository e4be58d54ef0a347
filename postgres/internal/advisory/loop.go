package advisory

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// Claims that wait are tried again after a pause that grows. One connection serves them all, however many there are:
// pg_advisory_lock would need a connection for each, since it blocks the one that it is called on. The [scout] has one
// more, and waits for the first of them.
const (
	leastPause = 4 * time.Millisecond
	mostPause  = 100 * time.Millisecond
)

// run does what is ordered, and tends the claims in between.
func (s *session) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case o := <-s.orders:
			if o.ctx.Err() == nil {
				o.do()
				close(o.done)
			}
		case <-s.backend.ended:
			s.backend.unwatched()
		case err := <-s.scout.back:
			if s.scout.home(err, time.Now()) {
				s.tryKey(s.scout.key)
			}
		case <-timer.C:
		case <-s.link.Context().Done():
			s.backend.unwatch()
			s.backend.hangUp()
			s.scout.leave()
			return
		}
		timer.Reset(time.Until(s.tend()))
	}
}

// tend ends what has run out, tries what waits, keeps the session alive, and returns when that is to be done again.
func (s *session) tend() time.Time {
	now := time.Now()
	s.expire(now)
	if len(s.claims.line) > 0 && !now.Before(s.look) {
		s.poll()
	}
	never := now.Add(time.Hour)
	next := s.backend.tend(now, never)
	if again := s.scout.aim(s.claims, now, never); again.Before(next) {
		next = again
	}
	if len(s.claims.byID) > 0 && s.claims.due.Before(next) {
		next = s.claims.due
	}
	if len(s.claims.line) > 0 && s.look.Before(next) {
		next = s.look
	}
	return next
}

// expire ends the claims whose time is over.
func (s *session) expire(now time.Time) {
	for _, c := range s.claims.expired(now) {
		_ = s.end(c)
	}
}

// lease returns how long a claim is good for. The server frees what it has not heard of for the session's timeout.
func (s *session) lease(c *heldClaim, now time.Time) time.Duration {
	return min(c.ends.Sub(now), s.backend.timeout)
}

func (s *session) enter(c *driver.Claim) (driver.Place, error) {
	now := time.Now()
	s.expire(now)
	own := s.claims.byID[c.ID]
	switch {
	case own == nil && c.Ticket == 0 && !s.claims.fallen[c.ID]:
		return s.enterNew(c, now)
	case own == nil || own.state == claimKept:
		return driver.Place{}, s.claims.gone(c.ID)
	case own.state == claimHolding:
		if err := s.backend.beat(); err != nil {
			return driver.Place{}, err
		}
		if own.state != claimHolding { // it went with the session before this one
			return driver.Place{}, s.claims.gone(c.ID)
		}
	default:
		if err := s.try(own); err != nil {
			return driver.Place{}, err
		}
	}
	return s.place(own, c, now), nil
}

func (s *session) enterNew(c *driver.Claim, now time.Time) (driver.Place, error) {
	own := s.claims.add(c.ID, s.key(c.Name), c.Weight != driver.All)
	if err := s.try(own); err != nil {
		s.claims.move(own, claimOver)
		return driver.Place{}, err
	}
	if own.state == claimWaiting && c.Try {
		s.claims.move(own, claimOver)
		return driver.Place{Ahead: 1}, nil
	}
	if own.state == claimWaiting {
		s.pause, s.look = leastPause, now.Add(leastPause)
	}
	return s.place(own, c, now), nil
}

// place starts the lease of a claim anew, and tells where it stands.
func (s *session) place(own *heldClaim, c *driver.Claim, now time.Time) driver.Place {
	if own.state != claimHolding {
		s.claims.until(own, now.Add(c.Wait))
		return driver.Place{Ticket: own.ticket, TTL: s.lease(own, now), Ahead: 1}
	}
	s.claims.until(own, now.Add(c.TTL))
	return driver.Place{Ticket: own.ticket, Holds: true, TTL: s.lease(own, now)}
}

// try locks a claim's key for it, unless somebody else has it.
func (s *session) try(c *heldClaim) error {
	if k := s.claims.keys[c.key]; k != nil && s.claims.fits(c) {
		if err := s.backend.beat(); err != nil {
			return err
		}
		if s.claims.keys[c.key] == k { // else it has gone with the session
			s.claims.move(c, claimHolding)
			return nil
		}
	}
	if s.claims.keys[c.key] != nil {
		return nil
	}
	var got bool
	if err := s.backend.ask(tryLock[c.shared], []any{c.key}, &got); err != nil {
		// The server may have refused when it had locked already. Nobody else of this session has the key, so unlocking
		// it is harmless.
		if s.backend.conn != nil && s.backend.ask(unlock[c.shared], []any{c.key}, &got) != nil && s.backend.conn != nil {
			s.backend.end()
		}
		return err
	}
	if got {
		s.claims.move(c, claimHolding)
	}
	return nil
}

// poll tries all that wait.
func (s *session) poll() {
	start := time.Now()
	s.pause = min(mostPause, s.pause*3/2)
	for _, c := range slices.Clone(s.claims.line) {
		if err := s.try(c); err != nil {
			s.pause = mostPause
			break
		}
	}
	end := time.Now()
	s.look = end.Add(max(s.pause, 4*end.Sub(start))) // so that most of the time is left to others
}

// tryKey tries those that wait for a key that was free a moment ago.
func (s *session) tryKey(key int64) {
	for _, c := range slices.Clone(s.claims.line) {
		if c.key == key && s.try(c) != nil {
			return // a later poll tries again
		}
	}
}

// end ends a claim, and unlocks its key if no other of this client has it.
func (s *session) end(c *heldClaim) error {
	if c.state != claimWaiting {
		s.look = time.Now()
	}
	if !s.claims.move(c, claimOver) {
		return nil
	}
	had := false
	err := s.backend.ask(unlock[c.shared], []any{c.key}, &had)
	switch {
	case err != nil && s.backend.conn != nil:
		s.backend.end() // the end of the session unlocks what the server would not
	case err == nil && !had:
		err = driver.ErrSession
	}
	return err
}

func (s *session) leave(id string, keep time.Duration) error {
	now := time.Now()
	s.expire(now)
	c := s.claims.byID[id]
	if c == nil || c.state == claimKept {
		return s.claims.gone(id)
	}
	if keep > 0 && c.state == claimHolding {
		s.claims.move(c, claimKept)
		c.ends = time.Time{}
		s.claims.until(c, now.Add(keep))
		return nil
	}
	return s.end(c)
}

func (s *session) renew(cs []driver.Claim, answers []driver.Renewal) {
	now := time.Now()
	s.expire(now)
	var failure error
	if slices.ContainsFunc(cs, func(c driver.Claim) bool { return s.claims.holds(c.ID) }) {
		failure = s.backend.beat()
	}
	for i, c := range cs {
		own := s.claims.byID[c.ID]
		switch {
		case own == nil || own.state == claimKept:
			answers[i].Err = s.claims.gone(c.ID)
		case own.state == claimHolding && failure != nil:
			answers[i].Err = failure
		default:
			answers[i].TTL = s.place(own, &c, now).TTL
		}
	}
}

// over says that the session is over. Whoever had a lock in it is told; those that wait are tried again soon.
func (s *session) over() {
	s.pause, s.look = leastPause, time.Now().Add(leastPause)
	ids := s.claims.sessionOver()
	if f := s.endangered.Load(); f != nil && len(ids) > 0 {
		(*f)(ids...)
	}
}

// tryLock and unlock are the statements, for exclusive and shared locks. Each tells which backend has answered.
var (
	tryLock = map[bool]string{
		false: "SELECT pg_backend_pid(), pg_try_advisory_lock($1::bigint)",
		true:  "SELECT pg_backend_pid(), pg_try_advisory_lock_shared($1::bigint)",
	}
	unlock = map[bool]string{
		false: "SELECT pg_backend_pid(), pg_advisory_unlock($1::bigint)",
		true:  "SELECT pg_backend_pid(), pg_advisory_unlock_shared($1::bigint)",
	}
)
