package advisory

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// Claims that wait are tried again after a pause that grows. One connection serves them all, however many there are:
// pg_advisory_lock would need a connection for each, since it blocks the one that it is called on. The [scout] has one
// more, and waits for the first of them, which is tried as rarely as one that may have been forgotten in there.
const (
	leastPause = 4 * time.Millisecond
	mostPause  = 100 * time.Millisecond
	rarely     = time.Second

	// returnWithin is how long the answer of a scout that has its key is waited for.
	returnWithin = 2 * time.Second
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
		case <-s.crew.main.ended:
			s.crew.main.unwatched()
		case <-s.crew.second.ended:
			s.crew.second.unwatched()
		case err := <-s.scout.back:
			s.returned(err)
		case g := <-s.proven:
			g.move(ghostGone)
			s.claims.exorcised()
		case <-timer.C:
		case <-s.link.Context().Done():
			s.scout.leave()
			for _, b := range s.crew.all() {
				b.unwatch()
				b.hangUp()
			}
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
	next := s.crew.main.tend(now, never)
	if again := s.crew.second.tend(now, never); again.Before(next) {
		next = again
	}
	s.crew.tidy(s.claims.locked, s.scout.state == scoutHome)
	if again := s.scout.aim(s.claims, &s.crew, now, never); again.Before(next) {
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
		_ = s.end(c) // the state of the claim has it, and nobody waits for this
	}
}

// lease returns how long a claim is good for. The server frees what it has not heard of for the session's timeout.
func (s *session) lease(c *heldClaim, now time.Time) time.Duration {
	if c.state == claimWaiting {
		return min(c.ends.Sub(now), s.timeout/2) // see [session.take]
	}
	return min(c.ends.Sub(now), s.timeout)
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
	case own.state == claimDoubtful:
		return driver.Place{}, driver.Unknown(errDoubtful)
	case own.state == claimHolding:
		if err := own.home.beat(); err != nil {
			return driver.Place{}, err
		}
		if own.state != claimHolding { // it went with the session before this one
			return driver.Place{}, s.claims.gone(c.ID)
		}
	default:
		if err := s.tryAgain(own); err != nil {
			return driver.Place{}, err
		}
		if own.state == claimOver { // it held, and its session has ended since
			return driver.Place{}, s.claims.gone(c.ID)
		}
	}
	return s.place(own, c, now), nil
}

func (s *session) enterNew(c *driver.Claim, now time.Time) (driver.Place, error) {
	own := s.claims.add(c.ID, s.key(c.Name), c.Weight != driver.All)
	if err := s.try(own); err != nil {
		s.claims.move(own, own.after())
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
		if err := k.home.beat(); err != nil {
			return err
		}
		if s.claims.keys[c.key] == k { // else it has gone with the session
			s.claims.move(c, claimHolding)
			return nil
		}
	}
	if s.claims.keys[c.key] != nil || c.ghost.haunts() { // it would wait for its own ghost
		return nil
	}
	var got bool
	b := s.crew.main
	if err := b.ask(tryLock[c.shared], []any{c.key}, &got); err != nil {
		// The server may have refused when it had locked already. Nobody else on this connection has the key, so unlocking
		// it is harmless.
		if b.conn != nil && b.ask(unlock[c.shared], []any{c.key}, &got) != nil && b.conn != nil {
			b.end(false)
		}
		if b.conn == nil && !driver.NotApplied(err) {
			c.ghost = b.self
			s.exorcise(c.ghost)
		}
		return err
	}
	if got {
		c.home = b
		s.claims.move(c, claimHolding)
	}
	return nil
}

// tryAgain tries a claim that waits. The scout, which waits in the server for its key, may have locked that already: then its
// answer is on its way, and nobody else has the key. The lease of a claim that enters begins with the Enter, so the server must hear
// of the scout's connection once more: it counts from when it gave the key.
func (s *session) tryAgain(c *heldClaim) error {
	for range 5 { // others may come and go in between
		if err := s.try(c); err != nil || c.state != claimWaiting || !s.scout.covers(c) {
			return err
		}
		pid := s.scout.pid.Load()
		if pid == 0 {
			return nil // it has not asked for the key yet
		}
		var locked, scouted bool
		if err := s.crew.main.ask(lockedBy, []any{c.key, int32(pid)}, &locked, &scouted); err != nil {
			return err
		}
		switch {
		case scouted:
			if !s.await() {
				return nil
			}
			if c.state == claimHolding {
				return c.home.beat()
			}
		case locked:
			return nil
		}
	}
	return nil
}

// await waits for the answer of a scout that has its key, and reports whether it came. It does not wait for so long that the
// claims which hold are in danger.
func (s *session) await() bool {
	timer := time.NewTimer(min(returnWithin, s.timeout/4))
	defer timer.Stop()
	select {
	case err := <-s.scout.back:
		s.returned(err)
		return true
	case <-timer.C:
	case <-s.link.Context().Done():
	}
	return false
}

// lockedBy says whether a key is locked, and whether it is by a process.
const lockedBy = "SELECT pg_backend_pid(), count(*) > 0, coalesce(bool_or(pid = $2), false) FROM pg_locks " +
	"WHERE granted AND locktype = 'advisory' AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) " +
	"AND classid::bigint = (($1::bigint >> 32) & 4294967295) AND objid::bigint = ($1::bigint & 4294967295)"

// returned does what is to be done when the scout is back.
func (s *session) returned(err error) {
	now := time.Now()
	found := s.scout.home(err, now)
	if err != nil {
		s.pause, s.look = leastPause, now // nobody waits in the server for what the scout was sent for
	}
	if s.scout.left != nil {
		s.haunted(s.scout.left)
	}
	if found && s.scout.keeps {
		s.take(now)
	}
	if found {
		s.tryKey(s.scout.key)
	}
}

// take gives the key that the scout has locked to the claim that has waited longest for it, where it is locked.
//
// The server has ended that connection already if its answer came later than the timeout. A claim that waits is trusted for
// no more than half of the timeout from now, so an answer that took no more than the other half needs no confirmation.
func (s *session) take(now time.Time) {
	b := s.crew.spare
	c := s.claims.first(s.scout.key, s.scout.shared)
	late := now.Sub(s.scout.sent) > s.timeout/2
	if c == nil || s.claims.keys[c.key] != nil || late && b.beat() != nil {
		left := b.self
		b.hangUp() // which unlocks the key, once the server hears of it
		s.haunted(left)
		return
	}
	c.home = b
	s.claims.move(c, claimHolding)
	s.crew.granted(s.claims.locked)
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
	pause := s.pause
	if s.scout.keeps && !slices.ContainsFunc(s.claims.line, func(c *heldClaim) bool { return !s.scout.covers(c) }) {
		pause = rarely
	}
	s.look = end.Add(max(pause, 4*end.Sub(start))) // so that most of the time is left to others
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
	if !s.claims.move(c, claimDoubtful) {
		return s.ended(c)
	}
	had, was := false, c.home.self
	err := c.home.ask(unlock[c.shared], []any{c.key}, &had)
	if err != nil && c.home.conn != nil {
		c.home.end(false) // the end of the session unlocks what the server would not
	}
	switch {
	case err != nil || c.home.self != was:
		c.ghost = was
		s.exorcise(c.ghost)
	case !had:
		err = driver.ErrSession
	}
	if over := s.ended(c); err == nil {
		err = over
	}
	return err
}

// ended says that a doubtful claim is over, unless a ghost may have its key.
func (s *session) ended(c *heldClaim) error {
	if c.after() == claimDoubtful {
		return driver.Unknown(errDoubtful)
	}
	s.claims.move(c, claimOver)
	return nil
}

func (s *session) leave(id string, keep time.Duration) error {
	now := time.Now()
	s.expire(now)
	c := s.claims.byID[id]
	switch {
	case c == nil || c.state == claimKept:
		return s.claims.gone(id)
	case c.state == claimDoubtful:
		return driver.Unknown(errDoubtful)
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
	failures := map[*backend]error{} // of the connections that have been asked
	for i, c := range cs {
		own := s.claims.byID[c.ID]
		if own != nil && own.state == claimHolding {
			if _, asked := failures[own.home]; !asked {
				failures[own.home] = own.home.beat()
			}
			own = s.claims.byID[c.ID] // which may have gone with its connection
		}
		switch {
		case own == nil || own.state == claimKept:
			answers[i].Err = s.claims.gone(c.ID)
		case own.state == claimDoubtful:
			answers[i].Err = driver.Unknown(errDoubtful)
		case own.state == claimHolding && failures[own.home] != nil:
			answers[i].Err = failures[own.home]
		default:
			answers[i].TTL = s.place(own, &c, now).TTL
		}
	}
}

// over says that the session on a connection is over. Whoever had a lock in it is told; those that wait are tried again soon.
// If the last statement got no answer, the server may know nothing of the end, and is told by another connection.
func (s *session) over(b *backend, silent bool) {
	if silent {
		s.exorcise(b.self)
	}
	s.pause, s.look = leastPause, time.Now().Add(leastPause)
	ids := s.claims.sessionOver(b)
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
