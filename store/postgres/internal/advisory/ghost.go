package advisory

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A ghost is what may be left in the server of a connection that was given up: the locks that it had, and a statement that
// was on its way and may lock a key yet.
//
//	┌──────┐ given up with a request  ┌────────┐ the server knows ┌──────┐
//	│ live │─────────────────────────►│ haunts │─────────────────►│ gone │
//	└──────┘ of unknown outcome       └────────┘ its tag no more  └──────┘
//
// Each connection locks a key of its own, its tag, which nobody else knows, so the server can be asked for it, whatever has
// become of its process. The loop owns the state.
type ghost struct {
	tag    int64
	pid    uint32
	pooled bool // the process is a pooler's, and goes on with somebody else's session
	state  ghostState
}

type ghostState int

const (
	ghostLive ghostState = iota
	ghostHaunts
	ghostGone
)

// ghostMoves are the ways that a ghost can go.
var ghostMoves = map[ghostState][]ghostState{
	ghostLive:   {ghostHaunts},
	ghostHaunts: {ghostGone},
}

func newGhost() *ghost {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &ghost{tag: int64(binary.NativeEndian.Uint64(b[:]))}
}

// move moves a ghost, unless that is no way.
func (g *ghost) move(next ghostState) (moved bool) {
	if moved = slices.Contains(ghostMoves[g.state], next); moved {
		g.state = next
	}
	return moved
}

// haunts reports whether a ghost may have a key.
func (g *ghost) haunts() bool { return g != nil && g.state == ghostHaunts }

// after is the state in which a claim is that has left or never entered.
func (c *heldClaim) after() state {
	if c.ghost.haunts() {
		return claimDoubtful
	}
	return claimOver
}

var errDoubtful = driver.Unreachable(errors.New("it is not known yet whether the server has unlocked the key"))

const (
	// proveWithin is how long a Leave waits for the proof that a ghost is gone.
	proveWithin = 5 * time.Second

	leastProof = time.Millisecond // between two questions for a ghost
	mostProof  = 100 * time.Millisecond
)

// haunted says that the connection of the scout was given up, and may have the key of those who wait for it.
func (s *session) haunted(g *ghost) {
	s.exorcise(g)
	for _, c := range s.claims.line {
		if c.key == s.scout.key && c.shared == s.scout.shared {
			c.ghost = g
		}
	}
}

// exorcise ends a connection in the server, and has the loop told when that is proven.
func (s *session) exorcise(g *ghost) {
	if !g.move(ghostHaunts) {
		return
	}
	seen := *g // the state is the loop's
	s.link.Go(func() {
		ctx := s.link.Context()
		for pause := leastProof; !s.knowsNoMore(ctx, &seen); pause = min(2*pause, mostProof) {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		select {
		case s.proven <- g:
		case <-ctx.Done():
		}
	})
}

const (
	// tagFree says whether nobody has a tag. A process that ends frees its locks before anything else of it is gone. A standby
	// has locks of its own, and knows nothing of the primary's.
	tagFree = "SELECT CASE WHEN pg_is_in_recovery() THEN false ELSE pg_try_advisory_xact_lock($1::bigint) END"

	// endTagged ends the process that has a tag.
	endTagged = "SELECT pg_terminate_backend(pid) FROM pg_locks " +
		"WHERE pid = $2 AND granted AND locktype = 'advisory' AND objsubid = 1 " +
		"AND classid::bigint = (($1::bigint >> 32) & 4294967295) AND objid::bigint = ($1::bigint & 4294967295)"
)

// knowsNoMore ends what a ghost is in the server, and reports whether it is gone.
func (s *session) knowsNoMore(ctx context.Context, g *ghost) (gone bool) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := s.link.Take(ctx)
	if err != nil {
		return false
	}
	defer link.HangUp(conn)
	if err := conn.QueryRow(ctx, tagFree, link.Plain, g.tag).Scan(&gone); err != nil {
		return false
	}
	if !gone && !g.pooled {
		_, _ = conn.Exec(ctx, endTagged, link.Plain, g.tag, int32(g.pid)) // if it may not, the server ends it in time
	}
	return gone
}
