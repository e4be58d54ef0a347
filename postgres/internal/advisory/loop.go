package advisory

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// Claims that wait are tried again after a pause that grows. One connection serves them all, however many there are:
// pg_advisory_lock would need a connection for each, since it blocks the one that it is called on.
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
		case <-timer.C:
		case <-s.link.Context().Done():
			s.backend.unwatch()
			s.backend.hangUp()
			return
		}
		timer.Reset(time.Until(s.tend()))
	}
}

// tend ends what has run out, tries what waits, keeps the session alive, and returns when that is to be done again.
func (s *session) tend() time.Time {
	now := time.Now()
	if !now.Before(s.due) {
		s.expire(now)
	}
	if len(s.line) > 0 && !now.Before(s.look) {
		s.poll()
	}
	next := s.backend.tend(now, now.Add(time.Hour))
	if len(s.stands) > 0 && s.due.Before(next) {
		next = s.due
	}
	if len(s.line) > 0 && s.look.Before(next) {
		next = s.look
	}
	return next
}

func (s *session) gone(id string) error {
	if s.fallen[id] {
		return driver.ErrSession
	}
	return driver.ErrGone
}

// until sets when a claim ends, but never earlier than it was to end.
func (s *session) until(st *stand, t time.Time) {
	if t.After(st.ends) {
		st.ends = t
	}
	if len(s.stands) == 0 || st.ends.Before(s.due) {
		s.due = st.ends
	}
}

func (s *session) enter(c *driver.Claim) (driver.Place, error) {
	now := time.Now()
	s.expire(now)
	st := s.stands[c.ID]
	switch {
	case st == nil && (c.Ticket != 0 || s.fallen[c.ID]), st != nil && st.left:
		return driver.Place{}, s.gone(c.ID)
	case st == nil:
		s.serial++
		st = &stand{id: c.ID, key: s.key(c.Name), ticket: s.serial, shared: c.Weight != driver.All, changed: make(chan struct{}, 1)}
		if err := s.try(st); err != nil {
			return driver.Place{}, err
		}
		if !st.holds && c.Try {
			return driver.Place{Ahead: 1}, nil
		}
		s.until(st, now.Add(c.Wait))
		s.stands[c.ID] = st
		if !st.holds {
			s.line = append(s.line, st)
			s.pause, s.look = leastPause, now.Add(leastPause)
		}
	case st.holds:
		if err := s.backend.beat(); err != nil {
			return driver.Place{}, err
		}
		if s.stands[c.ID] != st { // it went with the session before this one
			return driver.Place{}, s.gone(c.ID)
		}
	default:
		if err := s.try(st); err != nil {
			return driver.Place{}, err
		}
	}
	if !st.holds {
		s.until(st, now.Add(c.Wait))
		return driver.Place{Ticket: st.ticket, TTL: s.lease(st, now), Ahead: 1}, nil
	}
	s.line = slices.DeleteFunc(s.line, func(w *stand) bool { return w == st })
	s.until(st, now.Add(c.TTL))
	return driver.Place{Ticket: st.ticket, Holds: true, TTL: s.lease(st, now)}, nil
}

// lease returns how long a claim is good for. The server frees what it has not heard of for the session's timeout.
func (s *session) lease(st *stand, now time.Time) time.Duration {
	return min(st.ends.Sub(now), s.backend.timeout)
}

// try locks a claim's key for it, unless somebody else has it.
func (s *session) try(st *stand) error {
	d := s.doors[st.key]
	if d != nil && d.shared && st.shared {
		if err := s.backend.beat(); err != nil {
			return err
		}
		d = s.doors[st.key] // which may have gone with the session
		if d != nil {
			d.holders++
			st.holds = true
			return nil
		}
	}
	if d != nil {
		return nil
	}
	var got bool
	if err := s.backend.ask(tryLock[st.shared], []any{st.key}, &got); err != nil {
		// The server may have refused when it had locked already. Nobody else of this session has the key, so unlocking
		// it is harmless.
		if s.backend.conn != nil && s.backend.ask(unlock[st.shared], []any{st.key}, &got) != nil && s.backend.conn != nil {
			s.backend.end()
		}
		return err
	}
	if got {
		s.doors[st.key] = &door{st.shared, 1}
		st.holds = true
	}
	return nil
}

// poll tries all that wait.
func (s *session) poll() {
	start := time.Now()
	s.pause = min(mostPause, s.pause*3/2)
	for _, st := range s.line {
		if err := s.try(st); err != nil {
			s.pause = mostPause
			break
		}
		if st.holds {
			st.told()
		}
	}
	s.line = slices.DeleteFunc(s.line, func(st *stand) bool { return st.holds })
	end := time.Now()
	s.look = end.Add(max(s.pause, 4*end.Sub(start))) // so that most of the time is left to others
}

func (st *stand) told() {
	select {
	case st.changed <- struct{}{}:
	default: // it has not seen the last time yet
	}
}

// expire ends the claims whose time is over.
func (s *session) expire(now time.Time) {
	if now.Before(s.due) {
		return
	}
	s.due = now.Add(time.Hour)
	for _, st := range s.stands {
		if !now.Before(st.ends) {
			_ = s.remove(st)
			st.told()
		} else if st.ends.Before(s.due) {
			s.due = st.ends
		}
	}
}

// remove takes a claim out, and unlocks its key if no other of this client has it.
func (s *session) remove(st *stand) error {
	delete(s.stands, st.id)
	if !st.holds {
		s.line = slices.DeleteFunc(s.line, func(w *stand) bool { return w == st })
		return nil
	}
	d := s.doors[st.key]
	if d == nil {
		return driver.ErrSession
	}
	if len(s.line) > 0 {
		s.look = time.Now()
	}
	if d.holders--; d.holders > 0 {
		return nil
	}
	delete(s.doors, st.key)
	had := false
	err := s.backend.ask(unlock[st.shared], []any{st.key}, &had)
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
	st := s.stands[id]
	if st == nil || st.left {
		return s.gone(id)
	}
	if keep > 0 && st.holds {
		st.left, st.ends = true, time.Time{}
		s.until(st, now.Add(keep))
		return nil
	}
	return s.remove(st)
}

func (s *session) renew(cs []driver.Claim, answers []driver.Renewal) {
	now := time.Now()
	s.expire(now)
	var failure error
	if slices.ContainsFunc(cs, func(c driver.Claim) bool { st := s.stands[c.ID]; return st != nil && st.holds }) {
		failure = s.backend.beat()
	}
	for i, c := range cs {
		st := s.stands[c.ID]
		switch {
		case st == nil || st.left:
			answers[i].Err = s.gone(c.ID)
		case st.holds && failure != nil:
			answers[i].Err = failure
		case st.holds:
			s.until(st, now.Add(c.TTL))
			answers[i].TTL = s.lease(st, now)
		default:
			s.until(st, now.Add(c.Wait))
			answers[i].TTL = s.lease(st, now)
		}
	}
}

// over says that the session is over, and with it the claims that held. Those that wait lose nothing by it.
func (s *session) over() {
	clear(s.doors)
	var ids []string
	for id, st := range s.stands {
		if st.holds {
			delete(s.stands, id)
			ids = append(ids, id)
		}
	}
	s.pause, s.look = leastPause, time.Now().Add(leastPause)
	if len(ids) == 0 {
		return
	}
	s.fallen = map[string]bool{}
	for _, id := range ids {
		s.fallen[id] = true
	}
	if f := s.endangered.Load(); f != nil {
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
