package engine

import "github.com/stilelock/stile/internal/engine/protocol"

// An amending is how far a change of a claim has come that holds. The change goes with renewals until one of them is
// answered, since one that was not answered may have made it.
//
//	            Amend            a renewal is sent
//	settled ─────────► wanted ─────────────────────► carried
//	   ▲                 ▲  └──────┐ not held any more  │ │
//	   │                 └─────────│── not answered ────┘ │
//	   └───────────────────────────┴────── answered ──────┘
type amending uint8

const (
	settled amending = iota // nothing is to change
	wanted                  // the next renewal is to carry the change
	carried                 // the renewal that is out carries it
)

// Amend changes the claim of a hold in the store; the shell knows how. The verdict is Pending if a Done follows. It
// is Shared if the claim is not this hold's alone, and a change that others have to know of makes it lighter. From
// now on the claim has no more turns: later waiters want the terms from before.
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

// amended ends a change with a verdict, if there is one under way.
func (e *Engine) amended(c Slot, v protocol.Verdict) {
	cl := e.claims.At(c)
	if cl.amend == settled {
		return
	}
	cl.amend = settled
	e.emit(protocol.Effect{Do: protocol.Done, Verb: protocol.Renew, Turn: cl.holds.First, Verdict: v})
}
