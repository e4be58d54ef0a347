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
	// listenAfter is how long a claim must hold until the service is asked for alerts. Who locks and unlocks sooner pays nothing.
	listenAfter = 100 * time.Millisecond

	// patienceMost is the longest pause after a request for alerts that failed.
	patienceMost = 5 * time.Second
)

// alerts have the service tell which claims are in danger, of those that have held for a while. A request for alerts is for some
// claims, and goes on; claims that come later need another one, which takes those of the smaller ones with it. So n claims need
// about log n requests that go on. The older one ends once the newer one is answered, and no alert is missed in between.
type alerts struct {
	c    *client
	kick chan struct{} // has an element if there is something to do

	mu      sync.Mutex          // guards what follows, also in the subscriptions
	able    bool                // the service has alerts
	tell    func(ids ...string) // nil: nobody is to be told, and nothing is remembered
	on      bool                // its goroutine runs
	claims  map[heldBy]*held
	limit   known.Limit
	subs    map[*subscription]bool
	retry   time.Time     // when to try again after a request that failed
	patient time.Duration // how long the last pause was; 0 if the last request was answered
}

type heldBy struct{ id, name string }

// A held is a claim that holds.
type held struct {
	claim *driver.Claim
	since time.Time
	until time.Duration // see [known.Until]
	sub   *subscription // that is to tell of it; nil if there is none yet
}

// A subscription is a request for alerts.
type subscription struct {
	claims   []heldBy
	live     int // how many of the held have it
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

// stir has the goroutine see what there is to do.
func (a *alerts) stir() {
	select {
	case a.kick <- struct{}{}:
	default: // it has not yet seen that
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

// renewed notes which claims hold, also those that another process began, and which do not any more.
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

// parts notes that a claim does not hold any more, or is about to leave.
func (a *alerts) parts(c *driver.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := heldBy{c.ID, c.Name}
	if h := a.claims[by]; h != nil {
		a.moveLocked(h, nil)
		delete(a.claims, by)
	}
}

// moveLocked has another subscription tell of a claim, and ends one that has no claims left.
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

// sweepLocked forgets claims that are over: they were left to another process.
func (a *alerts) sweepLocked() {
	for by, h := range a.claims {
		if known.Over(h.until) {
			a.moveLocked(h, nil)
			delete(a.claims, by)
		}
	}
	a.limit.Swept(len(a.claims))
}

// attend asks for alerts whenever there are claims that nobody tells of, until the client is closed.
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

// ask asks for alerts of the claims that have held for a while, and reports whether there are others, or some that did not fit.
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

// beginLocked begins a subscription. The claims that have none have this one from now on, and the others once it is answered.
func (a *alerts) beginLocked(s *subscription) {
	q := api.AlertsRequest{}
	for _, by := range s.claims {
		h := a.claims[by]
		if h.sub == nil {
			a.moveLocked(h, s)
		}
		if w, err := api.NewClaim(h.claim); err == nil { // it has entered so
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

// follow makes a request for alerts, and heeds the answer until it ends.
func (a *alerts) follow(ctx context.Context, s *subscription, q *api.AlertsRequest) {
	defer s.end()
	if body, err := api.Compose(q); err == nil {
		// However it ends, its claims need another one.
		_ = a.c.follow(ctx, &request{http.MethodPost, api.Alerts, body}, func(event, data string) {
			var alert api.Alert
			if event == api.EventAlert && json.Unmarshal([]byte(data), &alert) == nil {
				a.heed(s, &alert)
			}
		})
	}
	a.ended(s)
}

// heed does what an answer says. The first one says also that the service listens.
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

// ended notes that a subscription has ended. If the next one fails too, the service may be gone, and its claims are renewed at
// once: their client hears of the danger before they are lost.
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
