package session

import (
	"context"
	"slices"
	"time"
)

// A scout waits in the server for the key of the claim that has waited longest, on a connection of its own. When it comes back,
// the key is tried at home. All other keys are only tried now and then.
//
//	┌──────┐     send      ┌─────┐     recall      ┌──────────┐
//	│ home │──────────────►│ out │────────────────►│ recalled │
//	└──────┘               └──┬──┘                 └─────┬────┘
//	   ▲  the key was free,   │   the statement has ended │
//	   └──or a second is over─┴──────────────────────────┘
//
// Its connection belongs to the goroutine of the statement while the scout is not at home, and to the loop otherwise.
type scout struct {
	s      *Session
	state  scoutState
	back   chan error // of the statement; has room for one
	conn   Conn       // nil: there is none
	key    string
	shared bool
	cancel context.CancelFunc // of the statement
	quiet  time.Time          // it is not sent before, after a failure
	used   time.Time          // when it came back
}

type scoutState int

const (
	scoutHome scoutState = iota
	scoutOut
	scoutRecalled // nobody waits for its key, and a claim that leaves awaits its end
)

const (
	scoutRest = time.Second      // after a failure
	scoutKept = 10 * time.Second // how long the connection is kept when nobody waits

	// momentOfScout is how long the answer of a scout may take that has locked its key for a moment.
	momentOfScout = 50 * time.Millisecond
)

// covers reports whether the scout waits in the server for a claim's key.
func (sc *scout) covers(c *claim) bool {
	return sc.state == scoutOut && c.key == sc.key && c.shared == sc.shared
}

// stray returns the key that the scout waits for if nobody here does, and that it may lock for a moment.
func (sc *scout) stray() string {
	if sc.state == scoutHome || slices.ContainsFunc(sc.s.claims.line, sc.covers) {
		return ""
	}
	return sc.key
}

// aim sends the scout for the first of those who wait and for whom this client does not have the key itself, or recalls it for a
// claim that leaves. It returns when that is to be looked at again.
func (sc *scout) aim(now, never time.Time) time.Time {
	if stray := sc.stray(); sc.state == scoutOut && slices.ContainsFunc(sc.s.claims.leaving, func(c *claim) bool { return c.key == stray }) {
		sc.state = scoutRecalled
		sc.cancel()
	}
	if sc.state != scoutHome {
		return never
	}
	for _, c := range sc.s.claims.line {
		switch {
		case !sc.s.claims.free(c):
		case now.Before(sc.quiet):
			return sc.quiet
		default:
			sc.send(c)
			return never
		}
	}
	kept := min(scoutKept, sc.s.timeout/2) // the server would end an idle one
	switch {
	case sc.conn == nil:
		return never
	case now.Sub(sc.used) < kept:
		return sc.used.Add(kept)
	}
	sc.hangUp()
	return never
}

func (sc *scout) send(c *claim) {
	ctx, cancel := context.WithCancel(sc.s.life.Context())
	key, shared := c.key, c.shared
	if !sc.s.life.Go(func() {
		var err error
		if sc.conn == nil {
			sc.conn, err = sc.s.server.Connect(ctx)
		}
		if err == nil {
			err = sc.conn.Wait(ctx, key, shared)
		}
		sc.back <- err
	}) {
		cancel()
		return
	}
	sc.state, sc.key, sc.shared, sc.cancel = scoutOut, key, shared, cancel
}

// returned handles the scout's return.
func (s *Session) returned(err error) {
	recalled := s.scout.state == scoutRecalled
	s.scout.state, s.scout.used = scoutHome, time.Now()
	s.scout.cancel()
	if err != nil || recalled {
		s.scout.hangUp()
	}
	if err != nil && !recalled {
		s.scout.quiet = s.scout.used.Add(scoutRest)
		s.look = s.scout.used
	}
	for _, c := range s.claims.line {
		if c.key == s.scout.key {
			s.claims.askForKey(c)
		}
	}
}

func (sc *scout) hangUp() {
	if sc.conn != nil {
		sc.conn.Close()
		sc.conn = nil
	}
}

// joinProbe is for the end of the loop: the life, by which the scout went, has ended.
func (sc *scout) joinProbe() {
	if sc.state != scoutHome {
		sc.s.returned(<-sc.back)
	}
	sc.hangUp()
}
