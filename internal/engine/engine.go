package engine

import (
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// Turns is how many tokens a ticket is good for. With tickets below 1<<53, tokens stay below 1<<63.
const Turns = 1 << 10

// A Time is one moment of the client's clock.
type Time = protocol.Time

// Never is a time that does not come.
const Never = protocol.Never

// A Slot names a waiter, a claim or a hold of one engine. A waiter keeps its slot as a hold.
type Slot = slab.Slot

// None is no slot.
const None = slab.None

// An Engine decides what becomes of one name in one client. It is used by one goroutine at a time.
//
// Invariants, which hold after every event (see check in package explore):
//
//   - The line is empty ⇒ none of its claims is Asking or Queued.
//   - The line is not empty ⇒ it has a claim that asks, or one whose turns it waits for, or its own claims are in the
//     way and on their way out.
//   - What may stand in the store is asked for, held, kept for its holders, or on its way out.
//   - A claim has at most one request out whose answer is read.
//   - A hold is live ⇒ its claim is Held or Expiring and its deadline has not come.
//   - An id is never asked for again once it left, was refused or was gone.
type Engine struct {
	common *Common
	lines  slab.Slab[line]
	claims slab.Slab[claim]
	turns  slab.Slab[turn]
	due    Time // no later than the next time at which Tick has something to do
}

// A Common has the parts that engines share. One goroutine at a time uses it.
type Common struct {
	Conf  *protocol.Config
	Slept Time // how long the machine has slept; the shell sets it before an event

	closed  Time              // when Close was called: nothing new is asked for, and what nobody holds leaves; Never before that
	moves   uint64            // how often a claim changed its stage
	last    uint64            // number given to a claim or a request; never given twice
	effects []protocol.Effect // of the event that is being dealt with
}

// NewCommon returns what engines that decide like this have in common.
func NewCommon(conf *protocol.Config) Common { return Common{Conf: conf, closed: Never} }

// New returns an engine that has nothing to do.
func New(common *Common) Engine { return Engine{common: common, due: Never} }

// Idle reports whether nobody waits, nothing is held, and nothing of ours may stand in the store.
func (e *Engine) Idle() bool { return e.claims.Used() == 0 && e.turns.Used() == 0 }

func (e *Engine) closing() bool { return e.common.closed != Never }

// Reset readies an idle engine for another name. The numbers that it gives go on, so that a late answer is not taken
// for the answer to a new request.
func (e *Engine) Reset() { e.due = Never }

// Due returns when Tick is to be called. It may be early, never late.
func (e *Engine) Due() Time { return e.due }

func (e *Engine) arm(t Time) { e.due = min(e.due, t) }

// Still reports whether the event wants nothing done.
func (e *Engine) Still() bool { return len(e.common.effects) == 0 }

// Effects returns the effects of the events since the last call, in order. They stay until the next event.
func (e *Engine) Effects() []protocol.Effect {
	effects := e.common.effects
	e.common.effects = effects[:0]
	return effects
}

func (e *Engine) emit(f protocol.Effect) { e.common.effects = append(e.common.effects, f) }

// tell notifies observers, if there are any.
func (e *Engine) tell(v protocol.Event) {
	if e.common.Conf.Observed {
		e.emit(protocol.Effect{Do: protocol.Tell, Event: v})
	}
}
