package engine

import (
	"errors"
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// Detach leaves a claim to another process, and Attach takes it up there. Both need a renewal that the shell sends only for
// this: the engine has no part in the request, and judges the answer.

// errUnsettled says why a claim cannot be left to another process: a late Enter may bring it back after it ran out, and the
// process that attached it would then have an old token.
var errUnsettled = errors.New("a request of this claim was never answered, and may arrive late: release it instead")

// Pin makes a hold the last turn of its claim, so that a process that later takes the claim up gives out no smaller token.
// The code is OK, Lost, Refused, or Shared if others have a share in the claim.
func (e *Engine) Pin(now Time, h Slot) protocol.Verdict {
	v := e.mayPart(h, now)
	if v.Code == protocol.OK {
		e.claims.At(e.turns.At(h).in).turns = Turns
	}
	e.settle(now)
	return v
}

// mayPart returns OK if the claim of a hold may be left to another process, else the reason.
func (e *Engine) mayPart(h Slot, now Time) protocol.Verdict {
	x := e.turns.At(h)
	e.endExpired(x.in, now)
	switch cl := e.claims.At(x.in); {
	case x.state != live, cl.stage != held: // the shell knows why
		return protocol.Verdict{Code: protocol.Lost}
	case x.shares > 1 || cl.holds.Len > 1 || cl.amend != settled:
		return protocol.Verdict{Code: protocol.Shared}
	case cl.unsure > 0:
		return protocol.Verdict{Code: protocol.Refused, Err: errUnsettled}
	}
	return protocol.Verdict{Code: protocol.OK}
}

// Detach ends a pinned hold but leaves its claim in the store, if the store has renewed it. Otherwise the hold goes on,
// unless the store no longer has the claim.
func (e *Engine) Detach(now Time, h Slot, r *protocol.Reply) protocol.Verdict {
	c := e.turns.At(h).in
	v := e.mayPart(h, now)
	if v.Code == protocol.OK {
		v = r.Verdict()
		switch v.Code {
		case protocol.OK:
			e.claims.At(c).live--
			e.giveBack(h, now)
			e.enter(c, nowhere)
		case protocol.Lost:
			e.lose(c, now, v.Reason)
		}
	}
	e.settle(now)
	return v
}

// Attach takes up another process's claim, if the store has renewed it. The hold has the same token as there; it is None
// unless the code is OK.
func (e *Engine) Attach(
	now Time, t *protocol.Terms, token int64, maxHold time.Duration, r *protocol.Reply,
) (h Slot, v protocol.Verdict) {
	v = r.Verdict()
	switch {
	case e.closing():
		v = protocol.Verdict{Code: protocol.Closed}
	case r.OK() && e.common.Conf.Trusted(r.Sent, r.TTL) <= now:
		v = protocol.Verdict{Code: protocol.Doubtful, Err: errTooSlow}
	}
	if v.Code != protocol.OK {
		return None, v // the claim stays as it was, and runs out
	}
	c := e.newClaim(e.lineOf(t), held, false)
	cl := e.claims.At(c)
	cl.ticket, cl.turns = token/Turns, Turns // it has no further turns: the token is the given one
	h = e.turns.Take(turn{maxHold: maxHold, number: int16(token % Turns)})
	e.addHold(c, h, now)
	e.confirm(c, now, r.Sent, r.TTL)
	return h, v
}
