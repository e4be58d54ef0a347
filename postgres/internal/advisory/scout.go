package advisory

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/postgres/internal/link"
)

// A scout waits in the server, on a connection of its own, for the key of the claim that has waited longest. It locks the
// key and unlocks it in one statement, so it never has anything, and tells the loop, which tries at once. Another client
// may be quicker; then it waits again. All other keys are only tried now and then, as they all were without it.
//
//	┌──────┐     send      ┌─────┐     recall      ┌──────────┐
//	│ home │──────────────►│ out │────────────────►│ recalled │
//	└──────┘               └──┬──┘                 └─────┬────┘
//	   ▲  the key was free,   │       the statement was  │
//	   └──or an error─────────┘───────cancelled──────────┘
//
// A hand-over takes 1.9 ms in place of 7.8, where a pair of pg_advisory_lock and pg_advisory_unlock takes 0.3: go test -run
// NONE -bench Session ./internal/advisory, medians of three interleaved runs.
//
// The connection belongs to the goroutine of the statement while the scout is not at home, and to the loop otherwise.
type scout struct {
	link  *link.Link
	state scoutState
	back  chan error // of the statement; has room for one
	conn  *pgx.Conn  // nil: there is none
	quiet time.Time  // the scout is not sent before, after a failure
	used  time.Time  // when it came back

	key    int64
	shared bool
	cancel context.CancelFunc // of the statement
}

type scoutState int

const (
	scoutHome scoutState = iota
	scoutOut
	scoutRecalled
)

const (
	scoutRest = time.Second      // after a failure
	scoutKept = 10 * time.Second // for so long the connection is kept when nobody waits
)

// once are the statements, for exclusive and shared locks.
var once = map[bool]string{
	false: "SELECT pg_advisory_lock($1::bigint), pg_advisory_unlock($1::bigint)",
	true:  "SELECT pg_advisory_lock_shared($1::bigint), pg_advisory_unlock_shared($1::bigint)",
}

// aim sends the scout for the first of those who wait that this session does not keep waiting itself, or recalls it if
// nobody waits for what it is out for. It returns when that is to be looked at again.
func (s *scout) aim(cs *claims, now, never time.Time) time.Time {
	elsewhere := func(c *heldClaim) bool { return cs.keys[c.key] == nil }
	first := slices.IndexFunc(cs.line, elsewhere)
	switch {
	case s.state == scoutOut:
		if !slices.ContainsFunc(cs.line, func(c *heldClaim) bool { return c.key == s.key && c.shared == s.shared && elsewhere(c) }) {
			s.state = scoutRecalled
			s.cancel()
		}
	case s.state == scoutRecalled:
	case first >= 0 && now.Before(s.quiet):
		return s.quiet
	case first >= 0:
		s.send(cs.line[first])
	case s.conn != nil && now.Sub(s.used) >= scoutKept:
		s.hangUp()
	case s.conn != nil:
		return s.used.Add(scoutKept)
	}
	return never
}

func (s *scout) send(c *heldClaim) {
	ctx, cancel := context.WithCancel(s.link.Context())
	s.key, s.shared, s.cancel = c.key, c.shared, cancel
	if !s.link.Go(func() { s.back <- s.wait(ctx) }) {
		cancel()
		return
	}
	s.state = scoutOut
}

// wait is the statement.
func (s *scout) wait(ctx context.Context) (err error) {
	if s.conn == nil {
		if s.conn, err = s.link.Take(ctx); err != nil {
			return err
		}
	}
	_, err = s.conn.Exec(ctx, once[s.shared], named, s.key)
	return err
}

// home takes note that the scout has come back, and reports whether the key was free.
func (s *scout) home(err error, now time.Time) bool {
	recalled := s.state == scoutRecalled
	s.state, s.used = scoutHome, now
	s.cancel()
	if err != nil {
		s.hangUp()
		if !recalled {
			s.quiet = now.Add(scoutRest)
		}
	}
	return err == nil
}

// leave is for the end of the loop.
func (s *scout) leave() {
	if s.state != scoutHome {
		s.home(<-s.back, time.Now()) // the link's context, by which it went, has ended
	}
	s.hangUp()
}

func (s *scout) hangUp() {
	if s.conn != nil {
		link.HangUp(s.conn)
		s.conn = nil
	}
}
