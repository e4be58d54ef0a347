package engine

import (
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// Turns is the number of tokens of a ticket. With tickets below 1<<53, tokens stay below 1<<63.
const Turns = 1 << 10

// A Time is a moment of the client's clock.
type Time = protocol.Time

// Never is later than every moment.
const Never = protocol.Never

// A Slot names a waiter, a claim or a hold of one engine. A waiter keeps its slot as a hold.
type Slot = slab.Slot

// None is no slot.
const None = slab.None

// An Engine decides for one name in one client. One goroutine at a time uses it.
//
// Invariants, which hold after every event (see Check, and check in proof/explore):
//
//   - The line is empty ⇒ none of its claims is asking, queued or displaced.
//   - The line is not empty ⇒ it has a claim that asks, or a claim whose turns it waits for, or claims of this engine are in
//     its way and about to leave.
//   - A claim that may be in the store is asking, held, kept for its holders, or about to leave.
//   - A claim has at most one request under way whose answer counts.
//   - A hold is live ⇒ its claim is held or expiring, and its deadline is in the future.
//   - An id is never asked for again after it left, was refused or was gone.
type Engine struct {
	common *Common
	lines  slab.Slab[line]
	claims slab.Slab[claim]
	turns  slab.Slab[turn]
	due    Time // no later than the next work of Tick
}

// A Common has the shared parts of engines. One goroutine at a time uses it.
type Common struct {
	Conf  *protocol.Config
	Slept Time // how long the machine has slept; the shell sets it before an event

	closed  Time              // when Close was called; Never before. From then on nothing enters, and unused claims leave
	moves   uint64            // counts the changes of stages
	last    uint64            // the last number of a claim or a request; no number is used twice
	effects []protocol.Effect // of the current event
}

// NewCommon returns the shared parts for engines with these settings.
func NewCommon(conf *protocol.Config) Common { return Common{Conf: conf, closed: Never} }

// New returns an idle engine.
func New(common *Common) Engine { return Engine{common: common, due: Never} }

// Idle reports whether nobody waits, nothing is held, and no claim of this engine may be in the store.
func (e *Engine) Idle() bool { return e.claims.Used() == 0 && e.turns.Used() == 0 }

func (e *Engine) closing() bool { return e.common.closed != Never }

// Reset prepares an idle engine for another name. Its numbers go on, so that a late answer cannot match a new request.
func (e *Engine) Reset() { e.due = Never }

// Due returns the time of the next Tick. It may be early, never late.
func (e *Engine) Due() Time { return e.due }

func (e *Engine) arm(t Time) { e.due = min(e.due, t) }

// Still reports whether the event had no effects.
func (e *Engine) Still() bool { return len(e.common.effects) == 0 }

// Effects returns the effects since the last call, in order. They are valid until the next event.
func (e *Engine) Effects() []protocol.Effect {
	effects := e.common.effects
	e.common.effects = effects[:0]
	return effects
}

func (e *Engine) emit(f protocol.Effect) { e.common.effects = append(e.common.effects, f) }

// tell notifies the observers, if there are any.
func (e *Engine) tell(v protocol.Event) {
	if e.common.Conf.Observed {
		e.emit(protocol.Effect{Do: protocol.Tell, Event: v})
	}
}
