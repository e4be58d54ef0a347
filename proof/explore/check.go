package explore

import (
	"fmt"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// check returns the first violation in the world after an event.
func (w *World) check(ev Event) error {
	w.forgetOrphans()
	if err := w.checkTokens(); err != nil || w.again {
		return err
	}
	if ev.Kind != advance {
		if err := w.clients[ev.Client].e.Check(w.now); err != nil {
			return err
		}
	}
	if err := w.checkChanges(); err != nil {
		return err
	}
	if err := w.checkHolders(); err != nil {
		return err
	}
	if (w.faults == w.conf.Faults || !w.shaken && w.conf.Kinds&^Losses == 0) && w.conf.Acts&Detach == 0 && !w.mute {
		return w.checkKept()
	}
	return nil
}

// checkTokens checks that a token is higher than all earlier ones or, where several hold at once, is given only once.
func (w *World) checkTokens() error {
	for i := range w.clients {
		for g := range w.clients[i].gs {
			x := &w.clients[i].gs[g]
			if !x.fresh {
				continue
			}
			x.fresh = false
			if w.clients[i].claims[x.claim].pinned {
				return fmt.Errorf("token %s is given on a claim that had its last turn", tokenString(x.token))
			}
			exclusive := x.weight == driver.All
			if exclusive && x.token <= w.token && !slices.Contains(w.broken, x.token/engine.Turns) {
				return fmt.Errorf("token %s is given after %s", tokenString(x.token), tokenString(w.token))
			}
			for j := range w.clients {
				for h := range w.clients[j].gs {
					y := &w.clients[j].gs[h]
					if x != y && (y.state == holding || y.state == releasing || y.state == parting) && x.token == y.token {
						return fmt.Errorf("token %s is given twice", tokenString(x.token))
					}
				}
			}
			w.token = max(w.token, x.token)
		}
	}
	return nil
}

func tokenString(t int64) string { return fmt.Sprintf("%d:%d", t/engine.Turns, t%engine.Turns) }

// believes reports whether a goroutine believes that it holds.
func (w *World) believes(c *client, x *goroutine) bool {
	return (x.state == holding || x.state == parting) && !x.over && w.now < min(c.claims[x.claim].trust, x.until)
}

// checkHolders checks that the goroutines that believe that they hold do hold in the store, and fit into its capacity.
func (w *World) checkHolders() error {
	left := w.terms[0].Capacity
	var sharing [8]int64 // tickets of shared claims that were counted already
	n := 0
	for i := range w.clients {
		c := &w.clients[i]
		for g := range c.gs {
			x := &c.gs[g]
			if !w.believes(c, x) {
				continue
			}
			ticket := x.token / engine.Turns
			if slices.Contains(w.broken, ticket) {
				continue // the remover answers for the holder
			}
			id := c.claims[x.claim].id
			at := w.entry(id)
			if at < 0 || at >= w.holds() || w.store.Entries[at].Left || w.store.Entries[at].Ends <= w.micros() {
				return fmt.Errorf("client %d: goroutine %d believes that it holds, and the store does not: %s", i, g,
					w.storeString())
			}
			if w.store.Entries[at].Ticket != ticket {
				return fmt.Errorf("client %d: goroutine %d holds by ticket %d, which has token %s", i, g,
					w.store.Entries[at].Ticket, tokenString(x.token))
			}
			if x.takes() != driver.All && w.terms[0].Capacity == driver.All {
				if slices.Contains(sharing[:n], ticket) {
					continue
				}
				sharing[n] = ticket
				n++
			}
			if left -= x.takes(); left < 0 {
				return fmt.Errorf("client %d: goroutine %d is one too many of those who believe that they hold", i, g)
			}
		}
	}
	return nil
}

// checkKept checks that every claim in the store is wanted, held, or on its way out. Without faults there is nothing else.
func (w *World) checkKept() error {
	for i := range w.store.Entries {
		if e := &w.store.Entries[i]; !e.Left && !w.known(e.ID) && !slices.Contains(w.broken, e.Ticket) {
			return fmt.Errorf("nobody knows of a claim in the store: %s", w.storeString())
		}
	}
	return nil
}

func (w *World) known(name string) bool {
	for i := range w.clients {
		for s := range w.clients[i].claims {
			if id := w.clients[i].claims[s].id; id != 0 && idName(id) == name {
				return true
			}
		}
		for j := range w.clients[i].reqs {
			if idName(w.clients[i].reqs[j].id) == name {
				return true // a Leave without a waiting caller is on its way
			}
		}
	}
	return false
}

// checkFail checks that a wait fails only for a reason that exists.
func (w *World) checkFail(x *goroutine, f *protocol.Effect) error {
	switch {
	case f.Code == protocol.Held && !x.try:
		return fmt.Errorf("one who waits is told that others hold")
	case f.Code == protocol.Held && !x.company && w.faults == w.conf.Faults:
		return fmt.Errorf("a try is refused, and nobody else was there while it waited")
	case (f.Code == protocol.Unreachable || f.Code == protocol.Doubtful) && w.now < x.since+patience:
		return fmt.Errorf("one who has waited for %v is told that the store does not answer", w.now-x.since)
	case f.Code == protocol.Pending || f.Code == protocol.OK:
		return fmt.Errorf("a wait fails with code %v", codes[f.Code])
	case f.Code == protocol.Refused && w.conf.Kinds&Reject != 0:
	case f.Code == protocol.Lost && f.Reason != protocol.ByHand && !w.conf.Reclaim:
		return fmt.Errorf("one who waits is told that the store has forgotten it")
	case (f.Code == protocol.Lost || f.Code == protocol.Refused || f.Code == protocol.Unreachable ||
		f.Code == protocol.Doubtful) && !w.shaken && !w.mute:
		return fmt.Errorf("a wait fails without a reason: %v", codes[f.Code])
	}
	return nil
}

// checkEnd checks that no lease is lost without a reason.
func (w *World) checkEnd(c *client, x *goroutine, f *protocol.Effect) error {
	switch f.Reason {
	case protocol.HeldLong:
		if w.conf.MaxHold == 0 || w.now < x.until && !w.shaken {
			return fmt.Errorf("a hold ends too soon, as if it had been held for too long")
		}
	case protocol.Shutdown:
		if c.closed == engine.Never {
			return fmt.Errorf("a hold ends as by Close")
		}
	default:
		slept := c.slept > w.seat(c, x.claim).slept
		switch {
		case (f.Reason == protocol.SessionOver) != w.adrift:
			return fmt.Errorf("a hold ends for the reason %v, and its session is over: %v", reasons[f.Reason], w.adrift)
		case f.Reason == protocol.ByHand && !slices.Contains(w.broken, x.token/engine.Turns):
			return fmt.Errorf("a hold ends as if somebody had removed its claim")
		case (f.Reason == protocol.Unfit) != w.lacks:
			return fmt.Errorf("a hold ends for the reason %v, and the store lacks what is required: %v", reasons[f.Reason], w.lacks)
		case f.Reason == protocol.Suspended && !slept || f.Reason == protocol.Expired && slept:
			return fmt.Errorf("a hold ends for the reason %v, and the machine has slept since it was confirmed: %v",
				reasons[f.Reason], slept)
		case !w.shaken && !w.mute:
			return fmt.Errorf("a lease is lost without a reason: %v", f.Reason)
		}
	}
	return nil
}

// checkDone checks that a release fails only for a reason that exists.
func (w *World) checkDone(f *protocol.Effect) error {
	if f.Code != protocol.OK && f.Code != protocol.Refused && !w.shaken && !w.mute {
		return fmt.Errorf("a release fails without a reason: %v", codes[f.Code])
	}
	return nil
}

// late checks, before time moves, that nobody will have waited too long.
func (w *World) late() error {
	if w.conf.Kinds&(Pause|Sleep) != 0 {
		return nil // a client that was paused is late by that pause
	}
	to := w.next()
	for i := range w.clients {
		for g := range w.clients[i].gs {
			if x := &w.clients[i].gs[g]; x.state == waiting && x.try && w.faults == w.conf.Faults && !w.mute {
				return fmt.Errorf("client %d: goroutine %d does not want to wait, and time moves", i, g)
			}
		}
	}
	for i := range w.clients {
		c := &w.clients[i]
		if c.closed != engine.Never && to > c.closed+patience && c.e.Clearing() {
			return fmt.Errorf("client %d clears for longer than its patience after closing", i)
		}
		for g := range c.gs {
			x := &c.gs[g]
			from, most := x.since, patience
			if x.state == waiting && !w.conf.Silent {
				if !w.mute {
					continue // they may wait for others as long as they like
				}
				from, most = max(x.since, w.muted), 12*patience+ttl
			}
			if x.state != idle && x.state != holding && to > from+most {
				return fmt.Errorf("client %d: goroutine %d has waited for %v, and the store's silence is %v", i, g,
					w.now-x.since, w.mute)
			}
		}
	}
	return nil
}

// checkTurn checks that no turn begins on a claim that others wait for, or that may be lost soon.
func (w *World) checkTurn(c *client, x *goroutine) error {
	s := &c.claims[x.claim]
	switch {
	case s.weak:
		return fmt.Errorf("a turn begins on a claim whose renewal failed")
	case s.again && w.conf.Kinds&Break == 0 && w.checkAgain(x) != nil:
		return w.checkAgain(x)
	case x.token%engine.Turns != 0 && w.now >= s.begun+w.conf.turn()+w.conf.Linger:
		return fmt.Errorf("a turn begins %v after the first", w.now-s.begun)
	}
	return nil
}

// checkAgain checks that a claim that entered again, since the store forgot it, does not hold before the former holder
// knows of its loss.
func (w *World) checkAgain(x *goroutine) error {
	for i := range w.clients {
		for g := range w.clients[i].gs {
			y := &w.clients[i].gs[g]
			if y != x && w.believes(&w.clients[i], y) && slices.Contains(w.broken, y.token/engine.Turns) {
				return fmt.Errorf("a claim that entered again holds, and client %d: goroutine %d believes that it does", i, g)
			}
		}
	}
	return nil
}

// checkChanges checks that a change is answered at the latest when its claim is no longer held.
func (w *World) checkChanges() error {
	for i := range w.clients {
		c := &w.clients[i]
		for g := range c.gs {
			if x := &c.gs[g]; x.change == asked && (x.state == idle || !c.e.Stage(x.claim).Holds()) {
				return fmt.Errorf("client %d: the change that goroutine %d asked for is never answered", i, g)
			}
		}
	}
	return nil
}

// checkChange checks that the answer to a change agrees with the store.
func (w *World) checkChange(c *client, x *goroutine, f *protocol.Effect) error {
	at := w.entry(c.claims[x.claim].id)
	switch {
	case f.Code == protocol.OK && at >= 0 && w.store.Entries[at].Weight != 1:
		return fmt.Errorf("a change is confirmed that the store has not made: %s", w.storeString())
	case f.Code == protocol.OK, f.Code == protocol.Refused && w.conf.Kinds&Reject != 0:
		return nil
	case f.Code == protocol.Lost && !c.e.Stage(x.claim).Holds():
		return nil
	}
	return fmt.Errorf("a change ends without a reason: %v", codes[f.Code])
}

// checkGone checks that a claim is not forgotten while an Enter of it may still arrive, unless that Enter is old.
func (w *World) checkGone(c *client, id uint64) error {
	if w.conf.Acts&Detach != 0 {
		return nil // a claim that was left to another process is not removed from the store
	}
	if w.conf.Kinds&Reject != 0 && w.shaken {
		return nil // a store that refuses a Leave is not asked again
	}
	if w.conf.Kinds&Twice != 0 && w.faults < w.conf.Faults-1 {
		return nil // a copy of one Enter may be mistaken for another one that was not answered
	}
	for j := range c.reqs {
		r := &c.reqs[j]
		if r.id == id && r.doubted && r.verb == protocol.Enter && r.ticket == 0 && c.closed == engine.Never &&
			w.now < r.sent+patience {
			return fmt.Errorf("a claim is forgotten, and request %d for it may arrive", r.number)
		}
	}
	return nil
}

// checkAbsent checks that a holder learns it when the store does not have its claim.
func (w *World) checkAbsent(c *client, v protocol.Verb, s engine.Slot, r *protocol.Reply) error {
	if v != protocol.Renew || !r.Missing() && r.Outcome != protocol.Lacking {
		return nil
	}
	for g := range c.gs {
		if x := &c.gs[g]; x.state == holding && x.claim == s && !x.over {
			return fmt.Errorf("goroutine %d is not told that the store has lost its claim", g)
		}
	}
	return nil
}
