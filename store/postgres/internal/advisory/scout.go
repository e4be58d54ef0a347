package advisory

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A scout waits in the server, on the spare connection, for the key of the claim that has waited longest, and comes back
// with the key, which that claim then holds there. It waits in short statements, one after the other. All other keys are
// only tried now and then. While two connections have keys already, the scout locks the key and unlocks it
// at once, and the loop tries then; another client may be quicker, and then it waits again.
//
//	┌──────┐     send      ┌─────┐     recall      ┌──────────┐
//	│ home │──────────────►│ out │────────────────►│ recalled │
//	└──────┘               └──┬──┘                 └─────┬────┘
//	   ▲  the key was free,   │       the statement was  │
//	   └──or an error─────────┘───────cancelled──────────┘
//
// A hand-over takes 1.7 times that of two connections that do nothing else; it took 2.6 times while every scout came back
// without the key: go test -run NONE -bench HandOver -benchtime 150x ./internal/advisory, medians of three interleaved runs.
//
// Whether a statement that is cancelled has locked the key is not known, so its connection is never used again.
//
// The connection belongs to the goroutine of the statement while the scout is not at home, and to the loop otherwise.
type scout struct {
	link  *link.Link
	state scoutState // moved by move
	back  chan error // of the statement; has room for one
	at    *backend   // where it waits
	quiet time.Time  // the scout is not sent before, after a failure
	sent  time.Time
	used  time.Time // when it came back

	key    int64
	shared bool
	keeps  bool               // it keeps the key
	pid    atomic.Uint32      // the process that the statement was sent to, 0 if it was not yet
	cancel context.CancelFunc // of the statement
	left   *ghost             // of the statement that it came back from last, which may have locked the key; nil if none
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

// waitWithin bounds one statement of a scout, which then sends the next. A statement that waits keeps its snapshot, and as
// long as it does, CREATE INDEX CONCURRENTLY in other sessions waits for it, and VACUUM removes no row that was deleted
// since. It is less than the default of deadlock_timeout, at which log_lock_waits would log each of them.
const waitWithin = 900 * time.Millisecond

// errand is the statements that wait for a key, shared or not, and then say whether they have locked it. Unless they are to
// keep it, they unlock it. An error of lock_timeout would be in the server's log each time, unless it is caught in the
// server. The server may have given the key just when the time was over, so it looks there.
func errand(key int64, shared, keeps bool) string {
	suffix := ""
	if shared {
		suffix = "_shared"
	}
	has := "current_setting('stile.has')::boolean"
	if !keeps {
		has = "CASE WHEN " + has + " THEN pg_advisory_unlock" + suffix + "(current_setting('stile.key')::bigint) ELSE false END"
	}
	return fmt.Sprintf(`SELECT set_config('stile.key', '%d', true), set_config('lock_timeout', '%d', true);
DO $stile$ BEGIN
	PERFORM set_config('stile.has', 'true', true);
	PERFORM pg_advisory_lock%s(current_setting('stile.key')::bigint);
EXCEPTION WHEN lock_not_available THEN
	PERFORM set_config('stile.has', (SELECT count(*) > 0 FROM pg_locks WHERE pid = pg_backend_pid() AND granted AND locktype = 'advisory'
		AND objsubid = 1 AND classid::bigint << 32 | objid::bigint = current_setting('stile.key')::bigint)::text, true);
END $stile$;
SELECT pg_backend_pid(), %s`, key, waitWithin.Milliseconds(), suffix, has)
}

// scoutMoves are the ways that a scout can go.
var scoutMoves = map[scoutState][]scoutState{
	scoutHome:     {scoutOut},
	scoutOut:      {scoutHome, scoutRecalled},
	scoutRecalled: {scoutHome},
}

// move moves the scout, unless that is no way.
func (s *scout) move(next scoutState) (moved bool) {
	if moved = slices.Contains(scoutMoves[s.state], next); moved {
		s.state = next
	}
	return moved
}

// covers reports whether the scout waits in the server for what a claim waits for.
func (s *scout) covers(c *heldClaim) bool {
	return s.state == scoutOut && c.key == s.key && c.shared == s.shared
}

// aim sends the scout for the first of those who wait that this session does not keep waiting itself, or recalls it if
// nobody waits for what it is out for. It returns when that is to be looked at again.
func (s *scout) aim(cs *claims, crew *crew, now, never time.Time) time.Time {
	elsewhere := func(c *heldClaim) bool { return cs.keys[c.key] == nil }
	first := slices.IndexFunc(cs.line, elsewhere)
	switch {
	case s.state == scoutOut:
		if !slices.ContainsFunc(cs.line, func(c *heldClaim) bool { return s.covers(c) && elsewhere(c) }) {
			s.move(scoutRecalled)
			s.cancel()
		}
	case s.state == scoutRecalled:
	case first >= 0 && now.Before(s.quiet):
		return s.quiet
	case first >= 0:
		s.keeps = !crew.full(cs.locked)
		s.send(cs.line[first], crew.spare)
	case crew.spare.conn != nil && now.Sub(s.used) >= kept(crew.spare):
		crew.spare.hangUp()
	case crew.spare.conn != nil:
		return s.used.Add(kept(crew.spare))
	}
	return never
}

// kept is how long an idle connection is kept: the server would end it.
func kept(b *backend) time.Duration { return min(scoutKept, b.timeout/2) }

func (s *scout) send(c *heldClaim, at *backend) {
	ctx, cancel := context.WithCancel(s.link.Context())
	s.key, s.shared, s.at, s.cancel, s.sent = c.key, c.shared, at, cancel, time.Now()
	at.unwatch()
	s.pid.Store(0)
	sql := errand(c.key, s.shared, s.keeps)
	if !s.link.Go(func() { s.back <- at.wait(ctx, sql, &s.pid) }) {
		cancel()
		return
	}
	s.move(scoutOut)
}

// home takes note that the scout has come back, and reports whether the key was free.
func (s *scout) home(err error, now time.Time) (found bool) {
	recalled := s.state == scoutRecalled
	s.move(scoutHome)
	s.used, s.left = now, nil
	s.cancel()
	if err != nil || recalled {
		if s.at.conn != nil {
			s.left = s.at.self
		}
		s.at.hangUp() // which unlocks what it may have locked, once the server hears of it
	}
	if err != nil && !recalled {
		s.quiet = now.Add(scoutRest)
	}
	return err == nil && !recalled
}

// leave is for the end of the loop.
func (s *scout) leave() {
	if s.state != scoutHome {
		s.home(<-s.back, time.Now()) // the link's context, by which it went, has ended
	}
}
