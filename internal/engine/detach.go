package engine

import (
	"errors"
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// errUnsettled is why a claim is not left to another process that an Enter may yet bring back once it ran out. Whoever
// attached it then would have the token of before.
var errUnsettled = errors.New("a request of this claim was never answered, and may arrive late: release it instead")

// Detach ends a hold here but leaves its claim in the store, with its whole lease from now on. The verdict is Pending if
// a Done follows. It is Shared if the claim is not this hold's alone.
func (e *Engine) Detach(now Time, h Slot) protocol.Verdict {
	x := e.turns.At(h)
	c := x.in
	e.look(c, now)
	v := protocol.Verdict{Code: protocol.Pending}
	switch cl := e.claims.At(c); {
	case x.state != live, cl.stage == parting: // the shell knows why it ended
		v = protocol.Verdict{Code: protocol.Lost}
	case x.shares > 1 || cl.holds.Len > 1 || cl.amend != settled:
		v = protocol.Verdict{Code: protocol.Shared}
	case cl.unsure > 0:
		v = protocol.Verdict{Code: protocol.Refused, Err: errUnsettled}
	default:
		e.enter(c, parting) // no more turns, no more renewals but this
		e.send(c, protocol.Renew, e.common.Conf.Patience, 0)
	}
	e.settle(now)
	return v
}

// Pin makes a hold the last turn of its claim, so that a process that takes the claim up when this one is gone gives out no
// token that is smaller than one of before. The code is OK, or what that of Detach would be.
func (e *Engine) Pin(now Time, h Slot) protocol.Verdict {
	x := e.turns.At(h)
	c := x.in
	e.look(c, now)
	v := protocol.Verdict{Code: protocol.OK}
	switch cl := e.claims.At(c); {
	case x.state != live, cl.stage != held:
		v = protocol.Verdict{Code: protocol.Lost}
	case x.shares > 1 || cl.holds.Len > 1 || cl.amend != settled:
		v = protocol.Verdict{Code: protocol.Shared}
	case cl.unsure > 0:
		v = protocol.Verdict{Code: protocol.Refused, Err: errUnsettled}
	default:
		cl.turns = Turns
	}
	e.settle(now)
	return v
}

// detached takes the answer to the renewal that comes before a claim is left to another process.
func (e *Engine) detached(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	h := cl.holds.First
	switch v := r.Verdict(); v.Code {
	case protocol.OK:
		e.emit(protocol.Effect{Do: protocol.Done, Verb: protocol.Renew, Turn: h, Verdict: protocol.Verdict{Code: protocol.OK}})
		cl.live--
		e.giveBack(h, now)
		e.enter(c, nowhere)
	case protocol.Lost:
		e.lose(c, now, v.Reason)
	default:
		e.leaveParting(c, v)
		e.enter(c, held)
		e.failed(c, now, r.Err)
	}
}

// leaveParting answers whoever detaches a claim that does not part after all.
func (e *Engine) leaveParting(c Slot, v protocol.Verdict) {
	if cl := e.claims.At(c); cl.stage == parting {
		e.emit(protocol.Effect{Do: protocol.Done, Verb: protocol.Renew, Turn: cl.holds.First, Verdict: v})
	}
}

// Attach takes a claim up that was left by another process, with the token that it had. A Done with the claim follows;
// if its code is OK, it has the hold.
func (e *Engine) Attach(now Time, t *protocol.Terms, token int64, maxHold time.Duration) (c Slot) {
	if e.closing() {
		return None
	}
	c = e.newClaim(e.lineOf(t), attaching, false)
	cl := e.claims.At(c)
	cl.ticket, cl.turns = token/Turns, Turns // its turns are over: the token is the one that was given
	e.addHold(c, e.turns.Take(turn{maxHold: maxHold, number: int16(token % Turns)}), now)
	e.send(c, protocol.Renew, e.common.Conf.Patience, 0)
	return c
}

// attached takes the answer to the renewal that takes a claim up.
func (e *Engine) attached(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	h := cl.holds.First
	v := r.Verdict()
	switch {
	case e.closing():
		v = protocol.Verdict{Code: protocol.Closed}
	case r.OK() && e.common.Conf.Trusted(r.Sent, r.TTL) <= now:
		v = protocol.Verdict{Code: protocol.Doubtful, Err: errTooSlow}
	}
	if v.Code != protocol.OK {
		cl.live--
		e.removeHold(h)
		e.emit(protocol.Effect{Do: protocol.Done, Verb: protocol.Enter, Claim: c, Turn: None, Verdict: v})
		e.enter(c, nowhere) // it stays as it was found, and runs out
		return
	}
	e.enter(c, held)
	e.emit(protocol.Effect{Do: protocol.Done, Verb: protocol.Enter, Claim: c, Turn: h, Verdict: v})
	e.confirm(c, now, r.Sent, r.TTL)
}
