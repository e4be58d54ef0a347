package engine

import (
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// A claim that came to hold by another's leaving has a waiter's short lease. Most sections are over before this.
const handOverRenewal = 20 * time.Millisecond

// confirm notes that the store confirmed a lease of this length, by a request sent then.
func (e *Engine) confirm(c Slot, now, sent Time, ttl time.Duration) {
	cl := e.claims.At(c)
	cl.deadline = max(cl.deadline, e.common.Conf.Trusted(sent, ttl))
	cl.slept, cl.err = e.common.Slept, nil
	// Leases that are renewed together are renewed with the first that wants it: so what one may come early, all do. 1,000 leases
	// for 5 s cost a Redis server 657 commands a second, and 767 when it was a tenth (cd proof/bench && go run . -only '^holding$').
	third := min(e.lines.At(cl.line).terms.TTL, ttl) / 3
	next := sent + third - e.common.Conf.Jitter(third/30)
	if cl.alarm {
		next = now // the answer may have come too early to see the danger
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

// Alarm renews a claim at once, since its driver sees it in danger.
func (e *Engine) Alarm(now Time, c Slot) {
	cl := e.claims.At(c)
	switch {
	case cl.stage == held && cl.verb == protocol.Nothing:
		e.schedule(c, now)
	case cl.stage == held, cl.stage == asking, cl.stage == queued:
		cl.alarm = true // the request that is out may have come too early to see it
	}
}

// extend renews the claims that are due about now. A claim that is due a moment later goes along.
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

// renewed takes the answer to a renewal. An answer that never came changes nothing but what we know.
func (e *Engine) renewed(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	switch {
	case cl.stage != held:
	case r.OK():
		e.confirm(c, now, r.Sent, r.TTL)
		if cl.amend == wanted { // since the renewal was sent
			e.schedule(c, now)
		}
		if cl.amend == carried {
			e.amended(c, protocol.Verdict{Code: protocol.OK})
		}
	case r.Missing():
		if r.Outcome == protocol.Broken {
			cl.err = r.Err // who broke it, and why
		}
		e.lose(c, now, r.Verdict().Reason)
	case r.Outcome == protocol.Lacking:
		cl.err = r.Err
		e.lose(c, now, protocol.Unfit)
	case r.Outcome == protocol.Rejected && cl.amend == carried:
		e.amended(c, protocol.Verdict{Code: protocol.Refused, Err: r.Err})
		e.schedule(c, now) // it was the change that was refused, or the next renewal is refused too
	default:
		if cl.amend == carried {
			cl.amend = wanted
		}
		cl.err = r.Err
		pause := e.lines.At(cl.line).terms.TTL / 24
		pause = min(pause, max((cl.deadline-now)/4, handOverRenewal)) // a lease that was handed over is short
		e.schedule(c, now+pause+e.common.Conf.Jitter(pause))          // again and again, until the deadline
		e.trust(c)
	}
}
