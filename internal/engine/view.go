package engine

// Slots is how many slots of claims there are, free ones among them.
func (e *Engine) Slots() int { return len(e.claims.All) }

// Stage is what the claim in a slot is in; its zero value says that the slot is free.
func (e *Engine) Stage(c Slot) Stage { return e.claims.At(c).stage }

// Holds reports whether a claim in this stage holds, as far as the engine knows.
func (s Stage) Holds() bool { return s == held }

// Leased reports whether a claim in this stage has a deadline, or its holders had one that it has outlived.
func (s Stage) Leased() bool {
	return s == held || s == expiring || s == parting || s == attaching || s == over
}

// Used reports whether there is a claim in the slot.
func (e *Engine) Used(c Slot) bool { return e.claims.At(c).stage != nowhere }

// ID is the number of a claim, which this engine gives to no other. For one that was attached it says nothing of the
// claim's id in the store.
func (e *Engine) ID(c Slot) uint64 { return e.claims.At(c).id }

// Ticket is where the claim stands in the store, or 0 if that is not known.
func (e *Engine) Ticket(c Slot) int64 { return e.claims.At(c).ticket }

// Try reports whether the claim enters only if it holds at once.
func (e *Engine) Try(c Slot) bool { return e.claims.At(c).try }

// TermsOf are the terms of a claim.
func (e *Engine) TermsOf(c Slot) *Terms { return &e.lines.At(e.claims.At(c).line).terms }

// Peek is what [Engine.Effects] will return.
func (e *Engine) Peek() []Effect { return e.effects }

// Until is when a hold ends by its MaxHold, or Never.
func (e *Engine) Until(h Slot) Time { return e.turns.At(h).until() }

// Claim is the claim that a hold is a turn on.
func (e *Engine) Claim(h Slot) Slot { return e.turns.At(h).in }
