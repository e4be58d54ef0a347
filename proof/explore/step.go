package explore

import (
	"fmt"
	"slices"

	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// Step makes an event happen, and returns the first violation after it.
func (w *World) Step(ev Event) error {
	if w.trace != nil {
		w.say("%v", ev)
	}
	w.hashed = false
	if ev.Kind.fault() {
		w.fault(ev)
	}
	c := &w.clients[ev.Client]
	if ev.Kind != advance && ev.Kind != goBreak && ev.Kind != goMute && ev.Kind != goForget { // these concern no client
		w.touch(int(ev.Client))
	}
	var err error
	switch {
	case ev.Kind == advance:
		if err = w.late(); err != nil {
			return err
		}
		w.now = w.next()
		if w.trace != nil {
			w.say("    it is %v", w.now-start)
		}
		w.store.Expire(w.micros())
		w.store.Wake(w.micros())
	case ev.Kind == goBreak:
		if _, err = w.store.Break(w.micros(), int64(ev.Number)); err != nil {
			return err
		}
		w.store.Wake(w.micros())
		w.broken = append(w.broken, int64(ev.Number))
	case ev.Kind == goForget:
		for i := range w.store.Entries {
			w.broken = append(w.broken, w.store.Entries[i].Ticket)
		}
		w.store.Entries = w.store.Entries[:0]
		for i := range w.clients {
			c := &w.clients[i]
			for s := range engine.Slot(c.e.Slots()) {
				if c.e.Used(s) && c.e.Again(s) {
					w.seat(c, s).before, w.seat(c, s).again = true, false
					w.touch(i)
				}
			}
		}
	case ev.Kind == goMute:
		w.mute, w.muted = true, w.now
	case ev.Kind == goPause, ev.Kind == goSleep:
		c.paused, c.asleep, c.rouse = true, ev.Kind == goSleep, engine.Never
		if w.conf.Nap > 0 {
			c.rouse = w.now + w.conf.Nap
		}
	case ev.Kind == resume:
		if c.asleep {
			c.slept += ms
			c.common.Slept = c.slept
		}
		c.paused, c.asleep = false, false
	case ev.Kind <= tick:
		if ev.Kind != doDetach && ev.Kind != doAttach { // the engine learns of these from the answer to a renewal
			w.table.local(w, ev)
		}
		w.act(ev)
		w.meet()
		err = w.heed(int(ev.Client))
	default:
		err = w.request(ev)
	}
	if err == nil && !c.paused && ev.Kind != advance {
		err = w.rearm(int(ev.Client))
	}
	if err == nil {
		err = w.robbed
	}
	if err == nil {
		err = w.check(ev)
	}
	return err
}

// fault counts a fault, and notes whether it may cost a lease or make a wait fail, which one failed request alone may not.
func (w *World) fault(ev Event) {
	if ev.Kind == goDumb && w.find(ev).cut {
		return
	}
	w.faults--
	switch ev.Kind {
	case goLost, goDumb, goLate, goTwice, goUnsent, goEarly:
		// If a line may have only one stray, a waiter that comes after a loss waits for the sweep, and may give up before.
		w.shaken = w.shaken || w.faults < w.conf.Faults-1 || w.conf.Strays == 1 && w.conf.Acts&GiveUp != 0
	default:
		w.shaken = true
	}
}

// act makes an event of a goroutine or of the clock happen.
func (w *World) act(ev Event) {
	c := &w.clients[ev.Client]
	x := &c.gs[min(int(ev.G), len(c.gs)-1)]
	switch ev.Kind {
	case doLock, doTry:
		want := protocol.Want{Try: ev.Kind == doTry, Linger: w.conf.Linger, MaxHold: w.conf.MaxHold}
		if x.left > 0 {
			x.left--
		}
		x.try, x.since, x.over, x.company, x.stood = want.Try, w.now, false, false, false
		h, waiter := c.e.Want(w.now, &w.terms[ev.G], want)
		switch {
		case h != engine.None:
			w.hold(c, x, h)
		case waiter != engine.None:
			x.state, x.slot = waiting, waiter
		default:
			w.say("    it is closed")
		}
	case doGiveUp:
		v := c.e.GiveUp(w.now, x.slot)
		if w.trace != nil {
			w.say("    the answer is %v", codes[v.Code])
		}
		x.state = idle
	case doRelease:
		x.shares--
		x.since = w.now
		h := x.slot
		if x.shares == 0 {
			x.state = releasing
			c.unhear(func(r *request) bool { return r.apart && r.by == ev.G })
		}
		code := c.e.Release(w.now, h, w.conf.Keep)
		x.answer = code
	case doShare:
		if c.e.Share(w.now, x.slot) {
			x.shares++
		}
	case doAmend:
		if x.change = asked; c.e.Amend(w.now, x.slot, true).Code != protocol.Pending {
			x.change = unwilling
		}
	case doPin:
		w.pin(c, x)
	case doDetach:
		w.beginDetach(c, x, ev.G)
	case doAttach:
		w.beginAttach(c, x, ev.G)
	case doAlarm:
		c.e.Alarm(w.now, engine.Slot(ev.G))
	case doClose:
		c.closed = w.now
		for g := range c.gs {
			if y := &c.gs[g]; y.state == holding || y.state == parting {
				w.broken = append(w.broken, y.token/engine.Turns) // its work may not have ended
			}
		}
		for j := range c.reqs {
			c.reqs[j].cut = c.reqs[j].cut || c.reqs[j].apart
		}
		c.e.Close(w.now)
	case tick:
		c.e.Tick(w.now)
	}
}

// pin makes a hold the last turn of its claim.
func (w *World) pin(c *client, x *goroutine) {
	x.answer = c.e.Pin(w.now, x.slot).Code
	if x.answer == protocol.OK {
		w.seat(c, x.claim).pinned = true
	}
}

// hold makes a goroutine believe that it holds.
func (w *World) hold(c *client, x *goroutine, h engine.Slot) {
	x.state, x.slot, x.shares, x.over, x.change = holding, h, 1, false, unchanged
	x.claim, x.token, x.until = c.e.Turn(h)
	x.fresh = true
	if s := w.seat(c, x.claim); x.token%engine.Turns == 0 {
		s.begun = w.now
	}
}

// find returns the request that an event concerns.
func (w *World) find(ev Event) *request {
	c := &w.clients[ev.Client]
	for j := range c.reqs {
		if r := &c.reqs[j]; uint32(r.number) == ev.Number && r.live != ev.Copy {
			return r
		}
	}
	return nil
}

// request makes an event of a request happen.
func (w *World) request(ev Event) error {
	r := w.find(ev)
	c := &w.clients[ev.Client]
	outcome := protocol.Unknown
	switch ev.Kind {
	case deliver:
		w.apply(r)
		return w.reply(ev, r)
	case answer:
		return w.reply(ev, r)
	case apply, goSlow:
		w.apply(r)
		r.slow = r.slow || ev.Kind == goSlow
		if !r.live {
			late, apart := r.answer(), r.apart
			c.drop(r)
			if apart {
				return nil
			}
			if err := w.unread(c, late); err != nil {
				return err
			}
		}
		if w.trace != nil {
			w.say("    %v", w.storeString())
		}
		return nil
	case goStall:
		r.slow = true
		return nil
	case goTwice:
		again := *r
		again.live, again.slow = false, true
		c.reqs = append(c.reqs, again)
		r = w.find(ev)
		w.apply(r)
		return w.reply(ev, r)
	case goDumb:
		if r.verb != protocol.Await {
			w.apply(r)
		}
	case goLate:
		again := *r
		again.live, again.slow, again.doubted = false, true, true
		c.reqs = append(c.reqs, again)
		r = w.find(ev)
	case limit:
		if r.slow && !r.applied && r.verb != protocol.Await && !w.mute {
			again := *r
			again.live, again.doubted = false, true
			c.reqs = append(c.reqs, again)
			r = w.find(ev)
		}
	case goUnsent:
		outcome = protocol.Unsent
	case goReject:
		outcome = protocol.Rejected
	case goEarly:
		outcome = protocol.Answered
	case goDrift:
		outcome = protocol.Adrift
		w.remove(r.id)
	case goLack:
		if w.apply(r); r.reply.outcome == protocol.Answered {
			r.reply.outcome = protocol.Lacking
		}
		return w.reply(ev, r)
	}
	r.reply = reply{outcome: outcome}
	return w.reply(ev, r)
}

// reply gives the engine the answer to a request.
func (w *World) reply(ev Event, r *request) error {
	c := &w.clients[ev.Client]
	answer := r.answer()
	if w.trace != nil {
		w.say("    %v", replyString(r.verb, answer))
	}
	if r.apart {
		return w.part(ev, r, answer)
	}
	w.table.answered(c, r.verb, answer)
	if s := w.seat(c, r.claim); r.verb != protocol.Await &&
		(answer.Missing() ||
			r.verb == protocol.Leave && answer.Outcome == protocol.Answered) ||
		r.verb == protocol.Enter && answer.Outcome == protocol.Answered && answer.Place.Ticket == 0 {
		s.dead = true
	}
	if r.verb == protocol.Enter && answer.Place.Ticket != 0 {
		for g := range c.gs {
			c.gs[g].stood = c.gs[g].stood || c.gs[g].state == waiting
		}
	}
	verb, claim := r.verb, r.claim
	c.drop(r)
	c.e.Answer(w.now, answer)
	w.adrift, w.lacks = answer.Outcome == protocol.Adrift, answer.Outcome == protocol.Lacking
	err := w.heed(int(ev.Client))
	if w.adrift, w.lacks = false, false; err != nil {
		return err
	}
	return w.checkAbsent(c, verb, claim, answer)
}

// unread gives an engine an answer that it must ignore, since the request was superseded or has ended, and returns an error
// if the engine does not ignore it.
func (w *World) unread(c *client, late *protocol.Reply) error {
	due := c.e.Due()
	c.e.Answer(w.now, late)
	if !c.e.Still() || c.e.Due() != due {
		return fmt.Errorf("the answer to request %d is read, which the engine no longer waits for", late.Number)
	}
	return nil
}

func (c *client) drop(r *request) {
	for j := range c.reqs {
		if &c.reqs[j] == r {
			c.reqs = slices.Delete(c.reqs, j, j+1)
			return
		}
	}
}

// seat returns the shell's knowledge of the claim in a slot.
func (w *World) seat(c *client, s engine.Slot) *seat {
	for int(s) >= len(c.claims) {
		c.claims = append(c.claims, seat{})
	}
	return &c.claims[s]
}

// rearm checks that everything due was armed: an early tick must do nothing but arm again, and renew what must be renewed
// in a moment.
func (w *World) rearm(i int) error {
	c := &w.clients[i]
	due := c.e.Due()
	if due <= w.now {
		return nil
	}
	c.e.Tick(w.now)
	if c.e.Due() < due {
		return fmt.Errorf("due in %v, and armed for %v", c.e.Due()-w.now, due-w.now)
	}
	f := c.e.Peek()
	if len(f) == 0 {
		return nil
	}
	other := func(f protocol.Effect) bool { return f.Do != protocol.Send || f.Verb != protocol.Renew }
	if due > w.now+protocol.Slack(ttl) || slices.ContainsFunc(f, other) {
		return fmt.Errorf("a tick that was not armed: %v", effectString(&f[0]))
	}
	return w.heed(i)
}

// forgetOrphans drops the requests under way that change nothing, whenever they arrive.
func (w *World) forgetOrphans() {
	for i := range w.clients {
		c := &w.clients[i]
		n := len(c.reqs)
		c.reqs = slices.DeleteFunc(c.reqs, func(r request) bool {
			return !r.live && (r.verb != protocol.Enter || r.ticket != 0) && w.entry(r.id) < 0 && !w.entering(r.id)
		})
		if len(c.reqs) < n {
			w.touch(i)
		}
	}
}

// entering reports whether a claim that is not in the store may still come there.
func (w *World) entering(id uint64) bool {
	for i := range w.clients {
		c := &w.clients[i]
		for j := range c.reqs {
			if r := &c.reqs[j]; r.id == id && r.verb == protocol.Enter && r.ticket == 0 {
				return true
			}
		}
		for s := range c.claims {
			if c.claims[s].id == id && c.e.Ticket(engine.Slot(s)) == 0 {
				return true
			}
		}
	}
	return false
}

// meet notes for each waiting try whether anybody else is there, or another client's claim.
func (w *World) meet() {
	for i := range w.clients {
		for g := range w.clients[i].gs {
			x := &w.clients[i].gs[g]
			company := x.state == waiting && x.try && (x.company || w.meets(i, g))
			if company != x.company {
				x.company = company
				w.touch(i)
			}
		}
	}
}

func (w *World) meets(client, goroutine int) bool {
	for i := range w.clients {
		c := &w.clients[i]
		if i != client && !c.e.Idle() {
			return true
		}
		for g := range c.gs {
			if (i != client || g != goroutine) && c.gs[g].state != idle {
				return true
			}
		}
	}
	for i := range w.store.Entries {
		id := idNumber(w.store.Entries[i].ID)
		if !slices.ContainsFunc(w.clients[client].claims, func(s seat) bool { return s.id == id }) {
			return true
		}
	}
	return false
}
