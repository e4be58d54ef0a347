package engine

import (
	"errors"
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// A claim is left to another process, and taken up there, by a renewal that the shell sends only for this. The engine has no
// part in that request, and judges the answer.

// errUnsettled is the reason why a claim cannot be left to another process: an Enter may yet bring it back once it
// ran out, and whoever attached it then would have the old token.
var errUnsettled = errors.New("a request of this claim was never answered, and may arrive late: release it instead")

// Pin makes a hold the last turn of its claim, so that a process that takes the claim up when this one is gone gives out no
// token that is smaller than one of before. The code is OK, Lost, Refused, or Shared if the claim is not this hold's alone.
func (e *Engine) Pin(now Time, h Slot) protocol.Verdict {
	v := e.mayPart(h, now)
	if v.Code == protocol.OK {
		e.claims.At(e.turns.At(h).in).turns = Turns
	}
	e.settle(now)
	return v
}

// mayPart says whether the claim of a hold may be left to another process.
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

// Detach ends a pinned hold here but leaves its claim in the store, if that has renewed the claim. If not, the hold goes on,
// unless the store does not have the claim any more.
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

// Attach takes a claim up that was left by another process, if the store has renewed it. The hold has the token that it had
// there; it is None if the code is not OK.
func (e *Engine) Attach(now Time, t *protocol.Terms, token int64, maxHold time.Duration, r *protocol.Reply) (h Slot, v protocol.Verdict) {
	v = r.Verdict()
	switch {
	case e.closing():
		v = protocol.Verdict{Code: protocol.Closed}
	case r.OK() && e.common.Conf.Trusted(r.Sent, r.TTL) <= now:
		v = protocol.Verdict{Code: protocol.Doubtful, Err: errTooSlow}
	}
	if v.Code != protocol.OK {
		return None, v // it stays as it was found, and runs out
	}
	c := e.newClaim(e.lineOf(t), held, false)
	cl := e.claims.At(c)
	cl.ticket, cl.turns = token/Turns, Turns // its turns are over: the token is the one that was given
	h = e.turns.Take(turn{maxHold: maxHold, number: int16(token % Turns)})
	e.addHold(c, h, now)
	e.confirm(c, now, r.Sent, r.TTL)
	return h, v
}
