package engine

import "github.com/stilelock/stile/internal/engine/protocol"

// An amending is the progress of a change of a claim that holds. Each renewal carries the change until one is answered,
// since an unanswered renewal may have made it.
//
//	            Amend            a renewal is sent
//	settled ─────────► wanted ─────────────────────► carried
//	   ▲                 ▲  └──────┐ not held any more  │ │
//	   │                 └─────────│── not answered ────┘ │
//	   └───────────────────────────┴────── answered ──────┘
type amending uint8

const (
	settled amending = iota // no change
	wanted                  // the next renewal carries the change
	carried                 // the renewal under way carries the change
)

// Amend changes the claim of a hold in the store; the shell knows the change. The verdict is Pending if a Done follows. It
// is Shared if others have a share in the claim and must know of the change that makes it lighter. The claim has no more
// turns: later waiters want the old terms.
func (e *Engine) Amend(now Time, h Slot, lighter bool) protocol.Verdict {
	x := e.turns.At(h)
	c := x.in
	e.endExpired(c, now)
	v := protocol.Verdict{Code: protocol.Pending}
	switch cl := e.claims.At(c); {
	case x.state != live, cl.stage != held, cl.amend != settled: // the shell knows why
		v = protocol.Verdict{Code: protocol.Lost}
	case cl.holds.Len > 1, lighter && x.shares > 1:
		v = protocol.Verdict{Code: protocol.Shared}
	default:
		cl.turns, cl.amend = Turns, wanted
		e.schedule(c, now)
		e.extend(c, now)
	}
	e.settle(now)
	return v
}

// amended ends the change under way, if any, with a verdict.
func (e *Engine) amended(c Slot, v protocol.Verdict) {
	cl := e.claims.At(c)
	if cl.amend == settled {
		return
	}
	cl.amend = settled
	e.emit(protocol.Effect{Do: protocol.Done, Verb: protocol.Renew, Turn: cl.holds.First, Verdict: v})
}
