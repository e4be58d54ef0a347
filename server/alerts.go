package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// alerts pass what the driver says of claims in danger on to those who listen for them. A client that listens names its claims,
// and hears of them by their numbers: an id is the right to release a claim.
type alerts struct {
	mu sync.Mutex                    // guards what follows, also in the listeners
	of map[string]map[*listener]bool // by the id of a claim
}

// A listener is a client that listens.
type listener struct {
	news   chan struct{} // has an element if there is something to say
	claims []listened
	byID   map[string][]int // one id may be of claims on several names
}

// A listened is a claim of a listener.
type listened struct {
	name   string
	half   time.Duration // of its lease
	due    time.Time     // when to tell the client to come again
	danger bool          // and the client does not know yet
	over   bool          // nothing more is said about it
}

// add adds a listener for claims.
func (as *alerts) add(claims []*driver.Claim) *listener {
	l := &listener{news: make(chan struct{}, 1), claims: make([]listened, len(claims)), byID: map[string][]int{}}
	as.mu.Lock()
	defer as.mu.Unlock()
	for i, c := range claims {
		l.claims[i] = listened{name: c.Name, half: c.TTL / 2, due: time.Now().Add(c.TTL / 2)}
		l.byID[c.ID] = append(l.byID[c.ID], i)
		if as.of[c.ID] == nil {
			as.of[c.ID] = map[*listener]bool{}
		}
		as.of[c.ID][l] = true
	}
	return l
}

// mustHave returns the error of a caller that may no longer have the claims, or nil.
func (l *listener) mustHave(who *caller) error {
	for i := range l.claims {
		if err := who.mustHave(l.claims[i].name); err != nil {
			return err
		}
	}
	return nil
}

// drop is the reverse of add.
func (as *alerts) drop(l *listener) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for id := range l.byID {
		if delete(as.of[id], l); len(as.of[id]) == 0 {
			delete(as.of, id)
		}
	}
}

// each calls f for all that is listened for about a claim.
func (as *alerts) each(id string, f func(l *listener, c *listened)) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for l := range as.of[id] {
		for _, i := range l.byID[id] {
			f(l, &l.claims[i])
		}
	}
}

// endangered is what the driver alerts.
func (as *alerts) endangered(ids ...string) {
	for _, id := range ids {
		as.each(id, func(l *listener, c *listened) {
			c.danger = true
			notify(l.news)
		})
	}
}

// renewed notes which claims this server's driver has renewed, and so remembers: those with a lease that only a claim has which
// holds.
func (as *alerts) renewed(claims []*driver.Claim, renewals []driver.Renewal) {
	for i, c := range claims {
		if renewals[i].Err == nil && renewals[i].TTL > c.Wait {
			as.each(c.ID, func(_ *listener, of *listened) {
				if of.name == c.Name {
					of.due = time.Now().Add(of.half)
				}
			})
		}
	}
}

// left notes that a claim leaves.
func (as *alerts) left(d *driver.Claim) {
	as.each(d.ID, func(_ *listener, c *listened) { c.over = c.over || c.name == d.Name })
}

// say returns what there is to say, and when there may be more without news.
func (as *alerts) say(l *listener) (a api.Alert, next time.Time) {
	as.mu.Lock()
	defer as.mu.Unlock()
	now := time.Now()
	next = now.Add(api.Alive)
	for i := range l.claims {
		c := &l.claims[i]
		switch {
		case c.over:
			continue
		case c.danger:
			a.Danger, c.danger = append(a.Danger, i), false
		case !now.Before(c.due):
			a.Again, c.over = append(a.Again, i), true
			continue
		}
		if c.due.Before(next) {
			next = c.due
		}
	}
	return a, next
}

// alert answers with an event for each change in what endangers some claims: the first as soon as the service listens, and has
// renewed them, so that what happened before is known too. A driver forgets claims that it does not renew. So when half of a lease
// is over, and the client has renewed it elsewhere, it is told to come again with that claim. The server renews nothing by itself:
// the claims of a client that stands still must end.
func (s *Server) alert(w http.ResponseWriter, r *http.Request) {
	var q api.AlertsRequest
	if !read(w, r, &q) {
		return
	}
	claims, err := s.listened(callerOf(r.Context()), &q)
	if err != nil {
		s.fail(w, err)
		return
	}
	l := s.alerts.add(claims)
	defer s.alerts.drop(l)
	renewals := s.d.Renew(r.Context(), claims)
	s.alerts.renewed(claims, renewals)
	s.alerts.mu.Lock()
	for i := range renewals {
		l.claims[i].danger = l.claims[i].danger || renewals[i].Err != nil
	}
	s.alerts.mu.Unlock()
	s.stream(w, api.Events).alerts(r.Context(), s, l)
}

// listened returns the claims of a request.
func (s *Server) listened(who *caller, q *api.AlertsRequest) (claims []*driver.Claim, err error) {
	switch n := len(q.Claims); {
	case n == 0 || n > api.MaxClaims:
		return nil, invalid(fmt.Errorf("alerts are for 1 to %d claims, and not for %d", api.MaxClaims, n))
	case !s.alerter:
		return nil, driver.ErrUnsupported
	case s.ending.Err() != nil:
		return nil, errEnding
	}
	for i := range q.Claims {
		c := &q.Claims[i]
		if err := c.CheckLeased(); err != nil {
			return nil, invalid(err)
		}
		if c.Amend != nil {
			return nil, invalid(errors.New("alerts change no claim"))
		}
		if err := who.mustClaim(c.Name, c.Weight, c.Capacity); err != nil {
			return nil, err
		}
		holds := who.claim(c.Driver())
		holds.Wait = min(c.Wait, c.TTL/2) // so that the driver sees by the lease that it holds
		claims = append(claims, holds)
	}
	return claims, nil
}

// alerts writes the events for a listener until its client goes or loses its rights, or the server goes.
func (st *stream) alerts(ctx context.Context, s *Server, l *listener) {
	for {
		if err := callerOf(ctx).still(l.mustHave); err != nil {
			st.end(err)
			return
		}
		a, next := s.alerts.say(l)
		text := ":\n\n" // it is alive
		if !st.begun || len(a.Danger)+len(a.Again) > 0 {
			data, err := json.Marshal(a)
			if err != nil {
				return
			}
			text = api.EventAlert + "\n" + api.EventData + string(data) + "\n\n"
		}
		if !st.write(text) {
			return
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-l.news:
		case <-timer.C:
		case <-s.ending.Done():
			st.end(errEnding)
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || s.ending.Err() != nil {
			return
		}
	}
}
