package engine

import (
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// A claim that holds because another left has a waiter's short lease. Most critical sections end before handOverRenewal.
const handOverRenewal = 20 * time.Millisecond

// confirm notes that the store confirmed a lease of length ttl, by a request sent at sent.
func (e *Engine) confirm(c Slot, now, sent Time, ttl time.Duration) {
	cl := e.claims.At(c)
	cl.deadline = max(cl.deadline, e.common.Conf.Trusted(sent, ttl))
	cl.slept, cl.err = e.common.Slept, nil
	// A batch is renewed when the first of its leases is due, so the jitter of one lease makes all of them early. With a
	// thirtieth, 1,000 leases for 5 s cost a Redis server 657 commands a second, and 767 with a tenth
	// (cd proof/bench && go run . -only '^holding$').
	third := min(e.lines.At(cl.line).terms.TTL, ttl) / 3
	next := sent + third - e.common.Conf.Jitter(third/30)
	if cl.alarm {
		next = now // the answer may be older than the danger
	}
	cl.alarm = false
	e.trust(c)
	e.schedule(c, next)
	e.arm(cl.deadline)
}

func (e *Engine) trust(c Slot) {
	cl := e.claims.At(c)
	e.emit(protocol.Effect{Do: protocol.Trust, Claim: c, Until: cl.deadline, Verdict: protocol.Verdict{Err: cl.err}})
}

// Alarm renews a claim at once, since its driver saw it in danger.
func (e *Engine) Alarm(now Time, c Slot) {
	cl := e.claims.At(c)
	switch {
	case cl.stage == held && cl.verb == protocol.Nothing:
		e.schedule(c, now)
	case cl.stage == held, cl.stage == asking, cl.stage == queued:
		cl.alarm = true // the request under way may be older than the danger
	}
}

// extend renews a claim if it is due now or a moment later.
func (e *Engine) extend(c Slot, now Time) {
	cl := e.claims.At(c)
	if cl.stage != held || cl.verb != protocol.Nothing {
		return
	}
	if slack := protocol.Slack(e.lines.At(cl.line).terms.TTL); cl.due > protocol.After(now, slack) {
		e.arm(cl.due)
		return
	}
	if cl.amend == wanted {
		cl.amend = carried
	}
	e.send(c, protocol.Renew, cl.deadline-now, 0)
}

// renewed takes the answer to a renewal. Without an answer, nothing changes but what the engine knows.
func (e *Engine) renewed(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	switch {
	case cl.stage != held:
	case r.OK():
		e.confirm(c, now, r.Sent, r.TTL)
		if cl.amend == wanted { // the change came after this renewal was sent
			e.schedule(c, now)
		}
		if cl.amend == carried {
			e.amended(c, protocol.Verdict{Code: protocol.OK})
		}
	case r.Missing():
		if r.Outcome == protocol.Broken {
			cl.err = r.Err // says who broke it, and why
		}
		e.lose(c, now, r.Verdict().Reason)
	case r.Outcome == protocol.Lacking:
		cl.err = r.Err
		e.lose(c, now, protocol.Unfit)
	case r.Outcome == protocol.Rejected && cl.amend == carried:
		e.amended(c, protocol.Verdict{Code: protocol.Refused, Err: r.Err})
		e.schedule(c, now) // the change was refused; otherwise the next renewal is refused too
	default:
		if cl.amend == carried {
			cl.amend = wanted
		}
		cl.err = r.Err
		pause := e.lines.At(cl.line).terms.TTL / 24
		pause = min(pause, max((cl.deadline-now)/4, handOverRenewal)) // a lease after a hand-over is short
		e.schedule(c, now+pause+e.common.Conf.Jitter(pause))          // repeated until the deadline
		e.trust(c)
	}
}
