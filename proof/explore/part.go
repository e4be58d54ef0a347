package explore

import (
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A goroutine leaves a claim to another process, or takes one up, as the shell does: by a renewal that the engine does not
// send, but whose answer it judges.

// beginDetach makes a hold the last turn of its claim, and renews the claim.
func (w *World) beginDetach(c *client, x *goroutine, g uint8) {
	if w.pin(c, x); x.answer == protocol.OK {
		x.state, x.since = parting, w.now
		w.sendApart(c, request{claim: x.claim, id: c.claims[x.claim].id, weight: x.takes(), by: g})
	}
}

// beginAttach renews a claim that was left.
func (w *World) beginAttach(c *client, x *goroutine, g uint8) {
	if x.left > 0 {
		x.left--
	}
	if c.closed != engine.Never {
		return
	}
	x.over, x.state, x.since = false, attaching, w.now
	w.sendApart(c, request{claim: engine.None, id: w.baton.id, weight: w.baton.weight, token: w.baton.token, by: g})
	w.baton = baton{}
}

// firstApart is above all numbers that the engine gives to its requests.
const firstApart = 1 << 18

func (w *World) sendApart(c *client, r request) {
	r.verb, r.apart, r.live = protocol.Renew, true, true
	r.number, r.sent, r.limit = firstApart+c.apart, w.now, w.now+patience
	c.apart++
	c.reqs = append(c.reqs, r)
}

// part gives an engine the answer to a renewal of a goroutine that detaches or attaches.
func (w *World) part(ev Event, r *request, answer *protocol.Reply) error {
	c := &w.clients[ev.Client]
	of := *r
	x := &c.gs[of.by]
	c.drop(r)
	w.adrift = answer.Outcome == protocol.Adrift
	if x.state == parting {
		w.table.local(w, Event{Kind: doDetach, Client: ev.Client, G: of.by})
		x.state = holding
		left := baton{token: x.token, id: of.id, weight: x.takes()}
		if x.answer = c.e.Detach(w.now, x.slot, answer).Code; x.answer == protocol.OK {
			x.state, w.baton = idle, left
		} else if answer.Missing() {
			w.seat(c, of.claim).dead = true
		}
	} else {
		w.table.local(w, Event{Kind: doAttach, Client: ev.Client, G: of.by})
		x.state = idle
		if h, _ := c.e.Attach(w.now, &w.terms[of.by], of.token, w.conf.MaxHold, answer); h != engine.None {
			x.state, x.slot, x.shares, x.change = holding, h, 1, unchanged
			x.claim, x.token, x.until = c.e.Turn(h)
			w.seat(c, x.claim).id = of.id
		}
	}
	err := w.heed(int(ev.Client))
	if w.adrift = false; err != nil {
		return err
	}
	return w.checkAbsent(c, of.verb, of.claim, answer)
}
