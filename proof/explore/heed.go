package explore

import (
	"fmt"

	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// heed carries out the effects of a client's engine, and returns an error if one of them is wrong.
func (w *World) heed(i int) error {
	c := &w.clients[i]
	effects := c.e.Effects() // no method of the engine is called before they are carried out
	for j := range effects {
		f := &effects[j]
		if w.trace != nil && f.Do != protocol.Tell {
			w.say("    → %v", effectString(f))
		}
		var err error
		switch f.Do {
		case protocol.Send:
			err = w.send(i, f)
		case protocol.Cut:
			if r := c.out(f.Number); r != nil {
				r.cut = true
			} else {
				err = fmt.Errorf("request %d is cut that is not out", f.Number)
			}
		case protocol.Trust:
			s := w.seat(c, f.Claim)
			switch {
			case f.Until < s.trust:
				err = fmt.Errorf("claim %d was trusted for longer", f.Claim)
			case s.trust != 0 && w.now >= s.trust && f.Until > s.trust:
				err = fmt.Errorf("claim %d is trusted again after its deadline", f.Claim)
			}
			if s.trust, s.weak = f.Until, f.Err != nil; !s.weak {
				s.slept = c.slept
			}
		case protocol.Grant:
			if x := c.find(waiting, f.Turn); x == nil {
				err = fmt.Errorf("waiter %d is granted a turn, and nobody waits as it", f.Turn)
			} else {
				w.hold(c, x, f.Turn)
				err = w.checkTurn(c, x)
			}
		case protocol.Fail:
			if x := c.find(waiting, f.Turn); x == nil {
				err = fmt.Errorf("waiter %d is answered, and nobody waits as it", f.Turn)
			} else {
				x.state = idle
				err = w.checkFail(x, f)
			}
		case protocol.End:
			if x := c.holder(f.Turn); x == nil {
				err = fmt.Errorf("hold %d ends, and nobody has it", f.Turn)
			} else {
				x.over = true
				err = w.checkEnd(c, x, f)
			}
		case protocol.Done:
			err = w.done(c, f)
		case protocol.Gone:
			err = w.checkGone(c, w.seat(c, f.Claim).id)
			c.supersede(f.Claim)
			*w.seat(c, f.Claim) = seat{}
		}
		if err != nil {
			return err
		}
	}
	return w.returned(c)
}

// returned takes the verdicts that the engine's methods returned, after their effects.
func (w *World) returned(c *client) error {
	for g := range c.gs {
		x := &c.gs[g]
		code := x.answer
		x.answer = protocol.Pending
		switch {
		case x.state == releasing && (code == protocol.OK || x.over):
			x.state = idle
		case x.state == holding && code == protocol.Lost && !x.over:
			return fmt.Errorf("goroutine %d could not pin or detach what is not lost", g)
		}
	}
	return nil
}

func (c *client) find(s state, slot engine.Slot) *goroutine {
	for g := range c.gs {
		if x := &c.gs[g]; x.state == s && x.slot == slot {
			return x
		}
	}
	return nil
}

// holder returns the goroutine that has a hold.
func (c *client) holder(h engine.Slot) *goroutine {
	for g := range c.gs {
		if x := &c.gs[g]; x.slot == h && (x.state == holding || x.state == releasing || x.state == parting) {
			return x
		}
	}
	return nil
}

// out returns the request with a number whose answer the engine reads.
func (c *client) out(number uint64) *request {
	for k := range c.reqs {
		if r := &c.reqs[k]; r.live && r.number == number {
			return r
		}
	}
	return nil
}

// supersede notes that the engine no longer reads the answers to its earlier requests for a claim.
func (c *client) supersede(s engine.Slot) {
	c.unhear(func(r *request) bool { return !r.apart && r.claim == s })
}

// unhear notes that nobody reads the answers to such requests any more.
func (c *client) unhear(such func(r *request) bool) {
	for k := 0; k < len(c.reqs); k++ { // the answers to dropped requests are not read, which unread checks for the others
		r := &c.reqs[k]
		if !r.live || !such(r) {
			continue
		}
		if r.live = false; r.applied || r.verb == protocol.Await {
			c.drop(r)
			k--
		}
	}
}

func (w *World) send(i int, f *protocol.Effect) error {
	c := &w.clients[i]
	for k := range c.reqs {
		r := &c.reqs[k]
		if r.live && r.claim == f.Claim && (r.verb == protocol.Enter || r.verb == protocol.Leave || f.Verb == protocol.Enter) {
			return fmt.Errorf("%v overtakes %v", verbs[f.Verb], verbs[r.verb])
		}
	}
	c.supersede(f.Claim)
	s := w.seat(c, f.Claim)
	if s.id == 0 {
		s.id = uint64(i)<<clientBits | c.e.ID(f.Claim)
		s.again = c.e.Again(f.Claim) && !s.before
	}
	if s.dead && f.Verb == protocol.Enter {
		return fmt.Errorf("an id is asked for that left")
	}
	limit := engine.Never
	if f.Limit < engine.Never-w.now {
		limit = w.now + f.Limit
	}
	if limit <= w.now {
		return fmt.Errorf("%v may take no time", verbs[f.Verb])
	}
	r := request{
		verb: f.Verb, claim: f.Claim, number: f.Number, id: s.id, weight: c.e.TermsOf(f.Claim).Weight,
		sent: w.now, limit: limit, keep: f.Keep, amend: f.Amend, live: true,
	}
	if f.Verb == protocol.Enter {
		r.ticket, r.try = c.e.Ticket(f.Claim), c.e.Try(f.Claim) // no other request reads these
	}
	c.reqs = append(c.reqs, r)
	return nil
}

// done answers a goroutine that released a hold, or changed its claim.
func (w *World) done(c *client, f *protocol.Effect) error {
	if f.Verb == protocol.Renew {
		x := c.holder(f.Turn)
		if x == nil || x.change != asked {
			return fmt.Errorf("a change of hold %d is answered, and nobody waits for it", f.Turn)
		}
		if x.change = changed; f.Code != protocol.OK {
			x.change = unwilling
		}
		return w.checkChange(c, x, f)
	}
	x := c.find(releasing, f.Turn)
	if x == nil {
		return fmt.Errorf("the release of hold %d is answered, and nobody waits for it", f.Turn)
	}
	x.state = idle
	return w.checkDone(f)
}
