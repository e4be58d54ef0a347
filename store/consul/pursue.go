package consul

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
)

const (
	// rounds is how often a call tries again because other clients were faster.
	rounds = 8

	// maxMoves is how many moves a call makes at most if each one makes progress, such as removing some of many claims.
	maxMoves = 1 << 10
)

// errQuicker says that other clients were faster than each try of a call.
var errQuicker = driver.Unreachable(errors.New("other clients were quicker each time"))

// pursue makes the moves of a goal until the goal ends, and returns the end and the latest queue. Only pursue sends
// transactions that change the keys of a call's claim. With an error pursue returns the failed move.
func (d *Driver) pursue(ctx context.Context, s *seat, lc *localClaim, q *queue, next goal) (m move, after *queue, err error) {
	var was *answer
	conflicts := 0
	for range maxMoves {
		d.mu.Lock()
		s.state, s.exclusive = lc.state, lc.exclusive
		d.mu.Unlock()
		if m = next(s, q, was); m.end != goesOn {
			return m, q, nil
		}
		if m.ops == nil {
			if was != nil {
				conflicts++
			}
			if conflicts > rounds {
				return m, q, errQuicker
			}
			if q, err = d.look(ctx, s.c.Name); err != nil {
				return m, q, err
			}
			was = nil
			continue
		}
		var found []pair
		was = &answer{of: m}
		if found, was.bad, err = d.change(ctx, lc, m); err != nil {
			return m, q, err
		}
		if was.made() {
			q = nil // the move has changed it
			if last := m.ops[len(m.ops)-1]; last.Verb == tree {
				q = parse(s.c.Name, s.folder, found)
			}
		}
	}
	return m, q, driver.Unreachable(errors.New("there is no end of what is in the way"))
}

// change makes a move. If the answer to a transaction is lost, the claim becomes unsure, and its session serves no other
// claim.
func (d *Driver) change(ctx context.Context, lc *localClaim, m move) ([]pair, *conflict, error) {
	before := false
	if m.exclusive != nil {
		before = d.claims.setExclusive(lc, *m.exclusive) // before the request, so that no renewal at the same time misses the lock's key
	}
	found, bad, err := d.agent.transact(ctx, m.ops)
	if err != nil && !driver.NotApplied(err) {
		d.claims.become(lc, claimUnsure)
	}
	if m.exclusive != nil && (bad != nil || driver.NotApplied(err)) {
		d.claims.setExclusive(lc, before)
	}
	return found, bad, err
}

// seatOf returns the seat of a claim.
func seatOf(c *driver.Claim, lc *localClaim) *seat {
	return &seat{c: c, folder: lc.folder, key: lc.key, session: lc.session.id, record: lc.record}
}
