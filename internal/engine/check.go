package engine

import (
	"fmt"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// Check returns a fault of the engine's state: a broken invariant or a wrong count. Only tests call it; no caller can cause
// a fault.
func (e *Engine) Check(now Time) error {
	var waiters, claims, holds int
	for l := range e.lines.All {
		if ln := &e.lines.All[l]; ln.terms != nil {
			waiters += int(ln.waiters.Len)
			claims += int(ln.claims)
			if err := e.checkLine(Slot(l), now); err != nil {
				return err
			}
		}
	}
	for i := range e.claims.All {
		c := &e.claims.All[i]
		if c.stage == nowhere {
			continue
		}
		for _, d := range e.claims.All[:i] {
			if d.stage != nowhere && d.id == c.id {
				return fmt.Errorf("two claims have the id %d", c.id)
			}
		}
		holds += int(c.holds.Len)
		if err := e.checkClaim(Slot(i), now); err != nil {
			return fmt.Errorf("claim %d is %v: %w", i, c.stage, err)
		}
	}
	if waiters+holds != e.turns.Used() || claims != e.claims.Used() {
		return fmt.Errorf("%d waiters, %d holds and %d claims are known, but %d slots of turns and %d of claims are used",
			waiters, holds, claims, e.turns.Used(), e.claims.Used())
	}
	return nil
}

func (e *Engine) checkLine(l Slot, now Time) error {
	ln := e.lines.At(l)
	length, tries, last := 0, 0, None
	for w := ln.waiters.First; w != None; w = e.turns.At(w).links.Next {
		x := e.turns.At(w)
		if x.links.Prev != last || x.in != l || x.state > trying {
			return fmt.Errorf("waiter %d is not linked to waiter %d", w, last)
		}
		length, last = length+1, w
		tries += int(bit(x.state == trying))
	}
	claims, strays, asks := 0, 0, None
	for i := range e.claims.All {
		c := &e.claims.All[i]
		if c.stage == nowhere || c.line != l {
			continue
		}
		claims++
		strays += int(bit(c.stage.stray()))
		if c.stage.asks() {
			if asks != None {
				return fmt.Errorf("claims %d and %d both ask for one line", asks, i)
			}
			asks = Slot(i)
		}
	}
	stacked, last := 0, None
	for c := ln.free.First; c != None; c = e.claims.At(c).links.Next {
		x := e.claims.At(c)
		if x.links.Prev != last || !x.free || x.line != l {
			return fmt.Errorf("claim %d is not stacked on claim %d", c, last)
		}
		if x.stage != held {
			return fmt.Errorf("claim %d is stacked, and %v", c, x.stage)
		}
		stacked, last = stacked+1, c
	}
	for i := range e.claims.All {
		if c := &e.claims.All[i]; c.stage != nowhere && c.line == l && c.free {
			stacked--
		}
	}
	switch {
	case length != int(ln.waiters.Len) || tries != int(ln.tries) || claims != int(ln.claims) ||
		strays != int(ln.strays) || stacked != 0:
		return fmt.Errorf("%d waiters, %d tries, %d claims, %d strays; the line says %d, %d, %d, %d",
			length, tries, claims, strays, ln.waiters.Len, ln.tries, ln.claims, ln.strays)
	case asks != ln.asking:
		return fmt.Errorf("claim %d asks, and the line says claim %d", asks, ln.asking)
	case length == 0 && asks != None && !e.closing():
		return fmt.Errorf("nobody waits, and claim %d asks", asks)
	case length == 0 && claims == 0:
		return fmt.Errorf("the line of %d is kept for nobody", ln.terms.Weight)
	case length > 0 && e.closing():
		return fmt.Errorf("%d wait after closing", length)
	case length > 0 && asks == None && ln.current == None && e.obstacle(l) == noObstacle:
		return fmt.Errorf("%d wait, and no claim asks for them", length)
	case ln.current != None && e.claims.At(ln.current).stage != held:
		return fmt.Errorf("the line waits for the turns of claim %d, which is %v", ln.current, e.claims.At(ln.current).stage)
	case strays > int(e.common.Conf.Strays)+1 && !ln.terms.Permits():
		return fmt.Errorf("%d claims are on their way out", strays)
	}
	return nil
}

// outstanding has the possible requests under way for a claim in each stage.
var outstanding = [stages][]protocol.Verb{
	asking: {protocol.Enter, protocol.Nothing}, displaced: {protocol.Nothing},
	queued: {protocol.Enter, protocol.Await, protocol.Nothing}, quitting: {protocol.Enter, protocol.Await},
	held: {protocol.Renew, protocol.Nothing}, expiring: {protocol.Renew, protocol.Nothing},
	over:    {protocol.Renew, protocol.Nothing},
	leaving: {protocol.Leave, protocol.Nothing}, withdrawing: {protocol.Leave, protocol.Nothing},
	sweeping: {protocol.Leave, protocol.Nothing},
}

func (e *Engine) checkClaim(c Slot, now Time) error {
	cl := e.claims.At(c)
	holds, alive, last := 0, 0, None
	for h := cl.holds.First; h != None; h = e.turns.At(h).links.Next {
		x := e.turns.At(h)
		if x.links.Prev != last || x.in != c || x.state <= trying {
			return fmt.Errorf("hold %d is not linked to hold %d", h, last)
		}
		if x.shares < 1 && x.state != parted {
			return fmt.Errorf("hold %d has %d shares", h, x.shares)
		}
		holds, last = holds+1, h
		alive += int(bit(x.state == live))
	}
	if holds != int(cl.holds.Len) {
		return fmt.Errorf("%d holds are linked, and %d counted", holds, cl.holds.Len)
	}
	if alive != int(cl.live) {
		return fmt.Errorf("%d holds are live, and %d counted", alive, cl.live)
	}
	fits := false
	for _, v := range outstanding[cl.stage] {
		fits = fits || v == cl.verb
	}
	lives := cl.stage.lives()
	switch {
	case !fits:
		return fmt.Errorf("request %v is out", cl.verb)
	case alive > 0 && !lives:
		return fmt.Errorf("%d holds are live", alive)
	case lives && now >= cl.deadline && e.due > now:
		return fmt.Errorf("its deadline has come")
	case cl.holds.Len > 0 && !lives && cl.stage != over && cl.stage != leaving:
		return fmt.Errorf("it has %d holds", cl.holds.Len)
	case cl.holds.Len == 0 && (cl.stage == expiring || cl.stage == over || cl.stage == leaving):
		return fmt.Errorf("it has no hold")
	case cl.holds.Len == 0 && cl.stage == held && cl.linger == Never && e.due > now:
		return fmt.Errorf("nobody holds it, and it does not linger")
	case cl.verb == protocol.Nothing && cl.due == Never && !lives && cl.stage != over:
		return fmt.Errorf("no request is out, and none is due")
	case lives && cl.ticket == 0:
		return fmt.Errorf("it holds, and has no ticket")
	}
	return nil
}

// String returns the stage as a word.
func (s Stage) String() string {
	return [...]string{
		"nowhere", "asking", "queued", "displaced", "quitting", "held", "expiring", "over", "leaving", "withdrawing", "sweeping",
	}[s]
}

// Stages is the number of stages.
const Stages = int(stages)

// Slots returns the number of slots for claims, free ones included.
func (e *Engine) Slots() int { return len(e.claims.All) }

// Stage returns the stage of the claim in a slot; the zero value means a free slot.
func (e *Engine) Stage(c Slot) Stage { return e.claims.At(c).stage }

// Holds reports whether a claim in this stage holds, as far as the engine knows.
func (s Stage) Holds() bool { return s == held }

// Leased reports whether a claim in this stage has a deadline, or its holders had one that is past.
func (s Stage) Leased() bool {
	return s == held || s == expiring || s == over
}

// Used reports whether there is a claim in the slot.
func (e *Engine) Used(c Slot) bool { return e.claims.At(c).stage != nowhere }

// ID returns the number of a claim, which is unique in this engine. For an attached claim it is not part of the claim's id
// in the store.
func (e *Engine) ID(c Slot) uint64 { return e.claims.At(c).id }

// Peek returns the effects that [Engine.Effects] will return.
func (e *Engine) Peek() []protocol.Effect { return e.common.effects }

// Claim returns the claim of a hold.
func (e *Engine) Claim(h Slot) Slot { return e.turns.At(h).in }
