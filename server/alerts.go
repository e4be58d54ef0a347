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

// alerts pass the driver's alerts on to the clients that listen. A client names its claims, and the server refers to them by
// their indexes: an id is the right to release a claim.
type alerts struct {
	mu sync.Mutex                    // guards the fields below, also in the listeners
	of map[string]map[*listener]bool // by the id of a claim
}

// A listener is a client's request for alerts.
type listener struct {
	news   chan struct{} // has an element if there are events to send
	claims []listened
	byID   map[string][]int // claims on several names may have one id
}

// A listened is a claim of a listener.
type listened struct {
	name   string
	half   time.Duration // of its lease
	due    time.Time     // when the client must ask again
	danger bool          // and the client has not heard so yet
	over   bool          // there are no further events about it
}

// add adds a listener for some claims.
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

// mustHave returns an error if a caller may no longer have the claims.
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

// each calls f for each listener of a claim.
func (as *alerts) each(id string, f func(l *listener, c *listened)) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for l := range as.of[id] {
		for _, i := range l.byID[id] {
			f(l, &l.claims[i])
		}
	}
}

// endangered takes the driver's alerts.
func (as *alerts) endangered(ids ...string) {
	for _, id := range ids {
		as.each(id, func(l *listener, c *listened) {
			c.danger = true
			notify(l.news)
		})
	}
}

// renewed notes the claims that this server's driver has renewed and so remembers. A lease longer than the claim's Wait
// proves that the claim holds.
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

// say returns the alert to send now, and when there may be another without news.
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

// alert answers with events about some claims in danger. The service renews the claims once when it begins to listen, so the
// first event also covers earlier losses. A driver forgets a claim that it does not renew. So if the client renews a claim
// elsewhere, the server asks it after half a lease to come again with that claim. The server itself renews nothing after the
// first time: the claims of a client that stands still must end.
func (s *Server) alert(w http.ResponseWriter, r *http.Request) {
	var q api.AlertsRequest
	if !read(w, r, &q) || !s.meant(w, r) {
		return
	}
	claims, err := s.listened(callerOf(r.Context()), &q)
	if err != nil {
		s.fail(w, err)
		return
	}
	over, err := s.limits.hears(callerOf(r.Context()), len(claims))
	if err != nil {
		s.fail(w, err)
		return
	}
	defer over()
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

// listened returns the claims of a request, if the caller may have them.
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
		holds, err := who.claim(c.Driver())
		if err != nil {
			return nil, err
		}
		holds = s.limits.shorten(holds)
		holds.Wait = min(c.Wait, c.TTL/2) // so that the length of the lease shows that the claim holds
		claims = append(claims, holds)
	}
	return claims, nil
}

// alerts writes the events for a listener until the client goes or loses its rights, or the server ends.
func (st *stream) alerts(ctx context.Context, s *Server, l *listener) {
	for {
		if err := callerOf(ctx).still(l.mustHave); err != nil {
			st.end(err)
			return
		}
		a, next := s.alerts.say(l)
		text := ":\n\n" // a sign of life
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
