package engine

import (
	"cmp"

	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// Tick does all work that is due: it ends leases and holds, sends postponed requests, renews, and fails waiters whose
// patience is over. It may be called at any time, also late.
func (e *Engine) Tick(now Time) {
	e.due = Never
	for i := range e.claims.All {
		e.attend(Slot(i), now)
	}
	for l := range e.lines.All {
		e.loseHeart(Slot(l), now)
	}
	e.settle(now)
}

// attend does the work that is due for one claim, and arms the engine for the rest.
func (e *Engine) attend(c Slot, now Time) {
	e.endExpired(c, now)
	cl := e.claims.At(c)
	switch cl.stage {
	case held, expiring:
		if cl.holds.Len == 0 && now >= cl.linger {
			e.withdraw(c, now)
			return
		}
		e.extend(c, now)
		e.armHeld(c)
	case asking, queued:
		switch {
		case cl.verb != protocol.Nothing:
		case now >= cl.due:
			e.sendEnter(c, now)
		default:
			e.arm(cl.due)
		}
	case displaced:
		if now < cl.due {
			e.arm(cl.due)
			return
		}
		e.enter(c, asking)
		e.sendEnter(c, now)
	case leaving, withdrawing, sweeping:
		e.attendLeaving(c, now)
	}
}

func (e *Engine) armHeld(c Slot) {
	cl := e.claims.At(c)
	e.arm(min(cl.deadline, cl.linger))
	for _, x := range slab.Each(&e.turns, &cl.holds) {
		if x.state == live {
			e.arm(x.until())
		}
	}
}

func (e *Engine) attendLeaving(c Slot, now Time) {
	cl := e.claims.At(c)
	end := e.leaveEnd(c)
	switch {
	case now >= end && cl.stage == sweeping:
		e.enter(c, nowhere)
	case now >= end:
		e.gone(c, now, protocol.Verdict{Code: protocol.Doubtful, Err: cmp.Or(cl.err, protocol.ErrSilent)})
	case cl.verb == protocol.Nothing && now >= cl.due:
		e.sendLeave(c, now)
	default:
		e.arm(min(cl.due, end))
	}
}

// Close is called once for each engine of a client. It ends every wait and every held lease. Unused and waiting claims leave
// the store. Claims with unreleased holds stay until they run out, since their work may still run.
func (e *Engine) Close(now Time) {
	e.common.closed = min(e.common.closed, now)
	for l := range e.lines.All {
		e.failAll(Slot(l), protocol.Verdict{Code: protocol.Closed})
	}
	for i := range e.claims.All {
		c := Slot(i)
		switch cl := &e.claims.All[i]; cl.stage {
		case asking, queued, quitting:
			if cl.verb != protocol.Nothing {
				e.emit(protocol.Effect{Do: protocol.Cut, Claim: c, Number: cl.number})
			}
		case held, expiring:
			if cl.holds.Len == 0 {
				e.withdraw(c, now)
			} else {
				e.lose(c, now, protocol.Shutdown)
			}
		case sweeping:
			if cl.verb == protocol.Nothing {
				e.enter(c, nowhere) // its last Leave was answered; a late Enter runs out
			}
		case leaving, withdrawing:
			e.arm(e.leaveEnd(c))
		}
	}
	e.settle(now)
}

// Clearing reports whether claims without holders may still be in the store and are about to leave.
func (e *Engine) Clearing() bool {
	return e.claims.Find(func(_ Slot, c *claim) bool {
		return c.stage != nowhere && c.stage != over && !c.stage.lives()
	}) != None
}
