package engine

import (
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// withdraw removes a claim that nobody holds. Nobody waits for the outcome.
func (e *Engine) withdraw(c Slot, now Time) { e.leave(c, withdrawing, now) }

// leave removes a claim, in the stage leaving or withdrawing.
func (e *Engine) leave(c Slot, as Stage, now Time) {
	e.enter(c, as)
	cl := e.claims.At(c)
	cl.since, cl.tries, cl.linger = now, 0, Never
	e.sendLeave(c, now)
}

func (e *Engine) sendLeave(c Slot, now Time) {
	cl := e.claims.At(c)
	end := e.leaveEnd(c)
	e.send(c, protocol.Leave, max(end-now, e.common.Conf.Grain), max(0, cl.keep-now))
	e.arm(end)
}

// leaveEnd returns when the engine stops asking and lets a leaving claim run out.
func (e *Engine) leaveEnd(c Slot) Time {
	return protocol.After(min(e.claims.At(c).since, e.common.closed), e.common.Conf.Patience)
}

// left takes the answer to a Leave.
func (e *Engine) left(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	if cl.stage == sweeping {
		e.swept(c, now, r)
		return
	}
	v := r.Verdict()
	switch v.Code {
	case protocol.OK:
		if cl.ticket == 0 && cl.unsure > 0 {
			cl.unsure-- // an unanswered Enter put it there, and will not arrive again
		}
	case protocol.Lost:
		if cl.lost > 0 { // an earlier Leave has removed it
			v = protocol.Verdict{Code: protocol.OK}
		}
	case protocol.Unreachable:
		if cl.err = r.Err; r.Outcome == protocol.Unknown {
			cl.lost = min(cl.lost+1, maxUnsure)
		}
		if now < e.leaveEnd(c) {
			e.pause(c, now)
			return
		}
		v.Code = protocol.Doubtful
	}
	e.gone(c, now, v)
}

// gone answers the releaser of a claim that has left the store, or that is left to run out there.
func (e *Engine) gone(c Slot, now Time, v protocol.Verdict) {
	cl := e.claims.At(c)
	if cl.stage == leaving {
		h := cl.holds.First
		e.emit(protocol.Effect{Do: protocol.Done, Turn: h, Verb: protocol.Leave, Verdict: v, Held: now - e.turns.At(h).since})
		e.removeHold(h)
	}
	if v.Code == protocol.Doubtful {
		ln := e.lines.At(cl.line)
		ln.unanswered = min(ln.unanswered, cl.since) // waiters that came meanwhile have been patient since then
		e.enter(c, nowhere)                          // the store has had Patience; the claim runs out there
		return
	}
	e.forget(c, now)
}

// The pauses of a sweep grow, since most late Enters are only a little late.
const firstSweep = 100 * time.Millisecond

func (e *Engine) pauseSweeping(c Slot, now Time) {
	cl := e.claims.At(c)
	e.schedule(c, now+firstSweep<<cl.tries)
	cl.tries = min(cl.tries+1, maxTries)
	e.arm(e.leaveEnd(c))
}

// swept takes the answer to a Leave of a sweep, which looks for the claim of an Enter of unknown outcome.
func (e *Engine) swept(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	if r.OK() {
		cl.unsure--
	}
	if cl.unsure == 0 || r.Outcome == protocol.Rejected || e.closing() {
		e.enter(c, nowhere)
		return
	}
	e.pauseSweeping(c, now) // until leaveEnd
}
