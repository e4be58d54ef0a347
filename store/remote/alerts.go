package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/known"
)

const (
	// listenAfter is how long a claim must hold before the client asks for its alerts. A shorter hold costs no request.
	listenAfter = 100 * time.Millisecond

	// patienceMost is the longest pause after a failed request for alerts.
	patienceMost = 5 * time.Second
)

// alerts ask the service which of the client's claims are in danger, once the claims have held for a while. A request for
// alerts covers some claims and stays open. Claims that come later need a new request, which also takes over the claims of
// smaller requests. So n claims need about log n open requests. An older request ends only after the answer to the newer
// one, so no alert is missed in between.
type alerts struct {
	c    *client
	kick chan struct{} // has an element if attend has something to do

	mu      sync.Mutex          // guards the fields below, also in the subscriptions
	able    bool                // the service sends alerts
	tell    func(ids ...string) // takes the alerts; nil: nobody takes them, and nothing is remembered
	on      bool                // attend runs
	claims  map[heldBy]*held
	limit   known.Limit
	subs    map[*subscription]bool
	retry   time.Time     // when to ask again after a failed request
	patient time.Duration // the last pause; 0 once a request is answered
}

type heldBy struct{ id, name string }

// A held is a claim that holds.
type held struct {
	claim *driver.Claim
	since time.Time
	until time.Duration // see [known.Until]
	sub   *subscription // covers the claim; nil if none does yet
}

// A subscription is a request for alerts.
type subscription struct {
	claims   []heldBy
	live     int // how many held claims it covers
	answered bool
	end      context.CancelFunc
}

// Alert is [driver.Alerter.Alert].
func (c *client) Alert(endangered func(ids ...string)) {
	c.alerts.mu.Lock()
	defer c.alerts.mu.Unlock()
	if c.alerts.able {
		c.alerts.tell = endangered
	}
}

// stir makes attend look for work.
func (a *alerts) stir() {
	select {
	case a.kick <- struct{}{}:
	default: // a signal is already pending
	}
}

// holds notes that a claim holds, on a lease that begins now.
func (a *alerts) holds(c *driver.Claim, ticket int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tell == nil {
		return
	}
	by := heldBy{c.ID, c.Name}
	h := a.claims[by]
	if h == nil {
		if a.limit.Reached(len(a.claims)) {
			a.sweepLocked()
		}
		h = &held{since: time.Now()}
		a.claims[by] = h
		if !a.on {
			a.on = a.c.life.Go(a.attend)
		}
		a.stir()
	}
	claim := *c
	claim.Ticket, claim.Amend = ticket, nil
	if c.Amend != nil {
		claim.Weight, claim.Record = cmp.Or(c.Amend.Weight, c.Weight), cmp.Or(c.Amend.Record, c.Record)
	}
	h.claim, h.until = &claim, known.Until(c.TTL)
}

// renewed notes the claims that hold, including claims of another process, and the claims that are gone.
func (a *alerts) renewed(claims []*driver.Claim, renewals []driver.Renewal) {
	for i, c := range claims {
		switch r := &renewals[i]; {
		case errors.Is(r.Err, driver.ErrGone):
			a.parts(c)
		case r.Err == nil && (r.TTL > c.Wait || a.knows(c)):
			a.holds(c, c.Ticket)
		}
	}
}

func (a *alerts) knows(c *driver.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.claims[heldBy{c.ID, c.Name}] != nil
}

// parts forgets a claim that no longer holds or is about to leave.
func (a *alerts) parts(c *driver.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := heldBy{c.ID, c.Name}
	if h := a.claims[by]; h != nil {
		a.moveLocked(h, nil)
		delete(a.claims, by)
	}
}

// moveLocked moves a claim to another subscription, or to none, and ends a subscription without claims.
func (a *alerts) moveLocked(h *held, to *subscription) {
	if was := h.sub; was != nil && was != to {
		if was.live--; was.live == 0 {
			was.end()
		}
	}
	if to != nil && h.sub != to {
		to.live++
	}
	h.sub = to
}

// sweepLocked forgets claims whose leases are over: another process has them, or nobody.
func (a *alerts) sweepLocked() {
	for by, h := range a.claims {
		if known.Over(h.until) {
			a.moveLocked(h, nil)
			delete(a.claims, by)
		}
	}
	a.limit.Swept(len(a.claims))
}

// attend asks for alerts of claims without a subscription, until the client is closed.
func (a *alerts) attend() {
	closed := a.c.life.Context().Done()
	for again := true; ; {
		if !again {
			select {
			case <-a.kick:
			case <-closed:
				return
			}
		}
		select {
		case <-time.After(listenAfter):
		case <-closed:
			return
		}
		again = a.ask()
	}
}

// ask asks for alerts of the claims that have held for a while. It reports whether other claims remain, too young or too
// many for one request.
func (a *alerts) ask() (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweepLocked()
	if time.Now().Before(a.retry) {
		return true
	}
	s, size := &subscription{end: func() {}}, 0
	add := func(by heldBy) bool {
		n := mostOf(a.claims[by].claim)
		fits := len(s.claims) < api.MaxClaims && size+n <= api.MaxRequest
		if fits {
			s.claims, size = append(s.claims, by), size+n
		}
		return fits
	}
	for by, h := range a.claims {
		if h.sub == nil && (time.Since(h.since) < listenAfter || !add(by)) {
			again = true
		}
	}
	if len(s.claims) > 0 {
		a.mergeLocked(s, add)
		a.beginLocked(s)
	}
	return again
}

// mergeLocked takes the claims of smaller subscriptions into a new one.
func (a *alerts) mergeLocked(s *subscription, add func(heldBy) bool) {
	all := make([]*subscription, 0, len(a.subs))
	for sub := range a.subs {
		all = append(all, sub)
	}
	slices.SortFunc(all, func(x, y *subscription) int { return cmp.Compare(x.live, y.live) })
	for _, sub := range all {
		if sub.live > len(s.claims) || len(s.claims)+sub.live > api.MaxClaims {
			return
		}
		for _, by := range sub.claims {
			if h := a.claims[by]; h != nil && h.sub == sub && !add(by) {
				return
			}
		}
	}
}

// beginLocked begins a subscription. It covers claims without a subscription at once, and the others after the first answer.
func (a *alerts) beginLocked(s *subscription) {
	q := api.AlertsRequest{}
	for _, by := range s.claims {
		h := a.claims[by]
		if h.sub == nil {
			a.moveLocked(h, s)
		}
		if w, err := api.NewClaim(h.claim); err == nil { // it was valid when it entered
			q.Claims = append(q.Claims, *w)
		}
	}
	ctx, cancel := context.WithCancel(a.c.life.Context())
	s.end = cancel
	a.subs[s] = true
	if !a.c.life.Go(func() { a.follow(ctx, s, &q) }) {
		cancel()
	}
}

// follow makes a request for alerts and takes the events until the answer ends.
func (a *alerts) follow(ctx context.Context, s *subscription, q *api.AlertsRequest) {
	defer s.end()
	if body, err := api.Compose(q); err == nil {
		// In any case its claims then need a new request.
		_ = a.c.follow(ctx, &request{method: http.MethodPost, path: api.Alerts, body: body}, func(event, data string) {
			var alert api.Alert
			if event == api.EventAlert && json.Unmarshal([]byte(data), &alert) == nil {
				a.heed(s, &alert)
			}
		})
	}
	a.ended(s)
}

// heed acts on an alert. The first alert also shows that the service listens.
func (a *alerts) heed(s *subscription, alert *api.Alert) {
	a.mu.Lock()
	if !s.answered {
		s.answered, a.patient = true, 0
		for _, by := range s.claims {
			if h := a.claims[by]; h != nil {
				a.moveLocked(h, s)
			}
		}
	}
	var ids []string
	for _, i := range alert.Danger {
		if i >= 0 && i < len(s.claims) && a.claims[s.claims[i]] != nil {
			ids = append(ids, s.claims[i].id)
		}
	}
	for _, i := range alert.Again {
		if i < 0 || i >= len(s.claims) {
			continue
		}
		if h := a.claims[s.claims[i]]; h != nil && h.sub == s {
			a.moveLocked(h, nil)
			a.stir()
		}
	}
	tell := a.tell
	a.mu.Unlock()
	if len(ids) > 0 {
		tell(ids...)
	}
}

// ended notes the end of a subscription. If the next one fails too, the service may be gone, and ended alerts: the client
// renews the claims at once and learns of the danger before it loses them.
func (a *alerts) ended(s *subscription) {
	a.mu.Lock()
	delete(a.subs, s)
	var ids []string
	for _, by := range s.claims {
		if h := a.claims[by]; h != nil && h.sub == s {
			h.sub = nil
			ids = append(ids, by.id)
		}
	}
	second := a.patient == listenAfter
	if len(ids) > 0 {
		a.patient = min(max(2*a.patient, listenAfter), patienceMost)
		a.retry = time.Now().Add(a.patient)
		a.stir()
	}
	tell := a.tell
	a.mu.Unlock()
	if len(ids) > 0 && second {
		tell(ids...)
	}
}
