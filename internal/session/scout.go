package session

import (
	"context"
	"slices"
	"time"
)

// A scout waits in the server, on a connection of its own, for the key of the claim that has waited longest. When it
// returns, the home tries the key. All other keys are only tried now and then.
//
//	┌──────┐     send      ┌─────┐     recall      ┌──────────┐
//	│ home │──────────────►│ out │────────────────►│ recalled │
//	└──────┘               └──┬──┘                 └─────┬────┘
//	   ▲  the key was free,   │   the statement has ended │
//	   └──or a second is over─┴──────────────────────────┘
//
// While the scout is out, its connection belongs to the goroutine of its statement, otherwise to the loop.
type scout struct {
	s      *Session
	state  scoutState
	back   chan error // of the statement; has room for one
	conn   Conn       // nil for none
	key    string
	shared bool
	cancel context.CancelFunc // of the statement
	quiet  time.Time          // after a failure: not sent before this
	used   time.Time          // when it last returned
}

type scoutState int

const (
	scoutHome scoutState = iota
	scoutOut
	scoutRecalled // nobody waits for its key, and a claim that leaves waits for its end
)

const (
	scoutRest = time.Second      // after a failure
	scoutKept = 10 * time.Second // how long an unused connection is kept

	// momentOfScout bounds the wait for a scout that has locked its key for a moment.
	momentOfScout = 50 * time.Millisecond
)

// covers reports whether the scout waits in the server for a claim's key.
func (sc *scout) covers(c *claim) bool {
	return sc.state == scoutOut && c.key == sc.key && c.shared == sc.shared
}

// stray returns the scout's key, which it may lock for a moment, if no claim here waits for it; else "".
func (sc *scout) stray() string {
	if sc.state == scoutHome || slices.ContainsFunc(sc.s.claims.line, sc.covers) {
		return ""
	}
	return sc.key
}

// aim sends the scout for the first waiting claim whose key this client does not have, or recalls it for a claim that
// leaves. It returns when to aim again.
func (sc *scout) aim(now, never time.Time) time.Time {
	if stray := sc.stray(); sc.state == scoutOut &&
		slices.ContainsFunc(sc.s.claims.leaving, func(c *claim) bool { return c.key == stray }) {
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
	kept := min(scoutKept, sc.s.timeout/2) // the server would end an idle connection
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

// joinProbe waits for the scout at the end of the loop: the end of the life has recalled it.
func (sc *scout) joinProbe() {
	if sc.state != scoutHome {
		sc.s.returned(<-sc.back)
	}
	sc.hangUp()
}
