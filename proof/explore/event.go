package explore

import (
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Kind is a kind of event.
type Kind uint8

// The kinds of events: first what goroutines do, then what happens to requests by itself, then faults.
const (
	doLock Kind = iota
	doTry
	doGiveUp
	doRelease
	doShare
	doDetach
	doAttach
	doAmend
	doPin
	doAlarm
	doClose
	tick    // the engine does all due work
	advance // time moves to the next moment
	deliver // the request is applied and answered
	apply   // the request is applied
	answer  // the reply arrives
	limit   // the request ends with an unknown outcome, at its limit or since it was cancelled
	resume  // a paused client goes on
	goSlow
	goLost
	goDumb
	goLate
	goStall // it ends only at its limit
	goTwice
	goUnsent
	goReject
	goEarly
	goDrift
	goLack
	goPause
	goSleep
	goBreak
	goMute
	goForget
	kinds
)

func (k Kind) String() string {
	return [...]string{
		"lock", "try", "give up", "release", "share", "detach", "attach", "amend", "pin", "alarm", "close", "tick", "time moves",
		"is delivered", "is applied", "is answered", "ends unknown", "goes on", "will be answered late", "is lost",
		"is applied, its answer lost",
		"is given up, and on its way", "hangs", "is delivered, and copied", "does not leave", "is rejected", "returns early",
		"finds its session over", "is applied, and lacks what is required", "pauses", "falls asleep", "is removed", "the store falls silent",
		"the store forgets all",
	}[k]
}

func (k Kind) fault() bool { return k >= goSlow }

// An Event is one thing that may happen in a world. Its kind decides which fields it has.
type Event struct {
	Kind   Kind
	Client uint8
	G      uint8  // the goroutine, or the slot of the claim
	Copy   bool   // the engine no longer waits for the request
	Number uint32 // of the request, or the ticket
}

func (e Event) String() string {
	switch {
	case e.Kind == advance || e.Kind == goMute || e.Kind == goForget:
		return e.Kind.String()
	case e.Kind == goBreak:
		return fmt.Sprintf("ticket %d %v", e.Number, e.Kind)
	case e.Kind == doAlarm:
		return fmt.Sprintf("client %d: claim %d is in danger", e.Client, e.G)
	case e.Kind < doAlarm:
		return fmt.Sprintf("client %d: goroutine %d: %v", e.Client, e.G, e.Kind)
	case e.Number == 0:
		return fmt.Sprintf("client %d: %v", e.Client, e.Kind)
	default:
		return fmt.Sprintf("client %d: request %d %v", e.Client, e.Number, e.Kind)
	}
}

// Events appends the events that may happen next.
func (w *World) Events(to []Event) []Event {
	prompt := false // something must happen before time moves
	for i := range w.clients {
		c := &w.clients[i]
		ev := Event{Client: uint8(i)}
		if c.paused {
			to = append(to, ev.of(resume))
			prompt = prompt || c.rouse <= w.now
		} else {
			to = w.goroutineEvents(to, i)
			if c.e.Due() <= w.now {
				prompt = true
				to = append(to, ev.of(tick))
			}
			if w.may(Pause) {
				to = append(to, ev.of(goPause))
			}
			if w.may(Sleep) {
				to = append(to, ev.of(goSleep))
			}
		}
		for j := range c.reqs {
			var p bool
			to, p = w.requestEvents(to, i, &c.reqs[j])
			prompt = prompt || p
		}
	}
	if w.may(Break) {
		for i := range w.store.Entries {
			if e := &w.store.Entries[i]; !e.Left {
				to = append(to, Event{Kind: goBreak, Number: uint32(e.Ticket)})
			}
		}
	}
	if w.may(Mute) && !w.mute {
		to = append(to, Event{Kind: goMute})
	}
	if w.may(Forget) && len(w.store.Entries) > 0 {
		to = append(to, Event{Kind: goForget})
	}
	if !prompt && w.next() != engine.Never {
		to = append(to, Event{Kind: advance})
	}
	return to
}

func (e Event) of(k Kind) Event {
	e.Kind = k
	return e
}

func (w *World) may(f Fault) bool { return w.faults > 0 && w.conf.Kinds&f != 0 }

func (w *World) goroutineEvents(to []Event, i int) []Event {
	c := &w.clients[i]
	acts := w.conf.Acts
	for g := range c.gs {
		x := &c.gs[g]
		ev := Event{Client: uint8(i), G: uint8(g)}
		switch {
		case x.state == idle && x.left != 0:
			if !differs(w.terms, c, g) {
				continue
			}
			if acts&Lock != 0 {
				to = append(to, ev.of(doLock))
			}
			if acts&Try != 0 {
				to = append(to, ev.of(doTry))
			}
			if w.baton.token != 0 && w.baton.weight == w.terms[g].Weight {
				to = append(to, ev.of(doAttach))
			}
		case x.state == waiting && acts&GiveUp != 0:
			to = append(to, ev.of(doGiveUp))
		case x.state == holding:
			to = append(to, ev.of(doRelease))
			if acts&Share != 0 && x.shares < 2 {
				to = append(to, ev.of(doShare))
			}
			if acts&Amend != 0 && x.change == unchanged && w.terms[g].Weight == driver.All {
				to = append(to, ev.of(doAmend))
			}
			if acts&Pin != 0 {
				to = append(to, ev.of(doPin))
			}
			if acts&Detach != 0 && x.shares == 1 && w.baton.token == 0 {
				to = append(to, ev.of(doDetach))
			}
		case x.state == parting && acts&Cross != 0:
			to = append(to, ev.of(doRelease))
		}
	}
	if acts&Alarm != 0 {
		for s := range c.claims {
			if c.claims[s].id != 0 {
				to = append(to, Event{Kind: doAlarm, Client: uint8(i), G: uint8(s)})
			}
		}
	}
	if acts&Close != 0 && c.closed == engine.Never {
		to = append(to, Event{Kind: doClose, Client: uint8(i)})
	}
	return to
}

// differs reports whether an idle goroutine differs from the earlier ones: its next steps would differ.
func differs(terms []protocol.Terms, c *client, g int) bool {
	for f := range g {
		x, y := &c.gs[f], &c.gs[g]
		if x.state == idle && x.left == y.left && terms[f].Weight == terms[g].Weight {
			return false
		}
	}
	return true
}

// requestEvents appends the events that may happen to a request, and reports whether one of them must happen before time
// moves.
func (w *World) requestEvents(to []Event, i int, r *request) (all []Event, prompt bool) {
	c := &w.clients[i]
	ev := Event{Client: uint8(i), Number: uint32(r.number), Copy: !r.live}
	if !r.live {
		return append(to, ev.of(apply)), !r.slow
	}
	if w.now >= r.limit || r.cut {
		if !c.paused {
			to = append(to, ev.of(limit))
		}
		prompt = !c.paused
	}
	switch {
	case w.mute && !r.applied:
	case r.verb == protocol.Await:
		if c.paused || r.slow {
			return to, prompt
		}
		if holds, gone := w.look(r); holds || gone {
			to = append(to, ev.of(deliver))
			prompt = prompt || holds
		}
		if !r.cut && w.now < r.limit {
			to = w.awaitFaults(to, ev)
		}
	case r.applied:
		if !c.paused {
			return append(to, ev.of(answer)), prompt || !r.slow
		}
	case r.slow:
		if !c.paused && w.conf.Kinds&Late != 0 {
			to = w.stalledFaults(to, ev)
		}
		return append(to, ev.of(apply)), prompt
	case c.paused || w.conf.Split:
		to, prompt = append(to, ev.of(apply)), true
	default:
		to, prompt = append(to, ev.of(deliver)), true
	}
	if r.verb != protocol.Await && !r.applied && !r.slow && !c.paused && !w.mute {
		to = w.requestFaults(to, ev, r)
	}
	return to, prompt
}

// stalledFaults appends how a request that hangs may end before its limit.
func (w *World) stalledFaults(to []Event, ev Event) []Event {
	if w.conf.Kinds&Reject == 0 {
		return to
	}
	for _, k := range [...]Kind{goUnsent, goReject, goLost} {
		if w.faults > 0 {
			to = append(to, ev.of(k))
		}
	}
	return to
}

func (w *World) awaitFaults(to []Event, ev Event) []Event {
	if w.may(Slow) {
		to = append(to, ev.of(goStall))
	}
	if w.may(Early) {
		to = append(to, ev.of(goEarly))
	}
	if w.may(Lost) {
		to = append(to, ev.of(goLost))
	}
	if w.may(Drift) {
		to = append(to, ev.of(goDrift))
	}
	return to
}

func (w *World) requestFaults(to []Event, ev Event, r *request) []Event {
	if r.cut {
		return append(to, ev.of(goDumb)) // this costs no fault: the request may have arrived
	}
	for _, f := range [...]struct {
		fault Fault
		kind  Kind
	}{
		{Slow, goSlow}, {Lost, goLost}, {Dumb, goDumb}, {Late, goLate}, {Late, goStall}, {Twice, goTwice},
		{Unsent, goUnsent}, {Reject, goReject}, {Drift, goDrift}, {Lack, goLack},
	} {
		if w.may(f.fault) && (f.fault != Lack || r.verb == protocol.Renew) {
			to = append(to, ev.of(f.kind))
		}
	}
	return to
}

// next returns the next moment at which something is due.
func (w *World) next() engine.Time {
	at := engine.Never
	sooner := func(t engine.Time) {
		if t > w.now {
			at = min(at, t)
		}
	}
	for i := range w.clients {
		c := &w.clients[i]
		if c.paused {
			sooner(c.rouse)
		}
		sooner(c.e.Due())
		for j := range c.reqs {
			if c.reqs[j].live {
				sooner(c.reqs[j].limit)
			}
		}
	}
	if t, ok := w.store.Next(); ok {
		sooner(engine.Time(t) * us)
	}
	return at
}
