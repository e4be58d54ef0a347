package consul

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"

	"github.com/stilelock/stile/driver"
)

// renew renews a session with all its keys, and reads no queue for that: others may have made it long. A key that is lost meanwhile is
// not there for its next query, so its client learns of it there.
func (f *Front) renew(ctx context.Context, q *Request, id string) (*Answer, error) {
	s, err := f.find(ctx, q, id)
	if err != nil {
		return nil, err
	}
	gone := refuse(http.StatusNotFound, "Session id '%.40s' not found", id)
	if s == nil {
		return nil, gone
	}
	c, err := f.claim(s)
	if err != nil {
		return nil, err
	}
	keys, err := f.listed(s)
	if err != nil {
		return nil, err
	}
	all := append([]*driver.Claim{c}, q.mayRenew(keys)...)
	renewals := f.d.Renew(ctx, all)
	if errors.Is(renewals[0].Err, driver.ErrGone) {
		return nil, gone
	}
	lost, err := missing(all, renewals)
	if err != nil {
		return nil, err
	}
	// The session may have another claim there, whose replica ended before it was listed.
	if keys, err = f.claims(ctx, s, slices.Values(lost)); err != nil {
		return nil, err
	}
	if others := q.mayRenew(keys); len(others) > 0 {
		if _, err := missing(others, f.d.Renew(ctx, others)); err != nil {
			return nil, err
		}
	}
	return answer(0, []*entry{s.entry()})
}

// mayRenew returns those of a session's claims that the caller may have. The right to the others was withdrawn, and their leases end.
func (q *Request) mayRenew(claims []*driver.Claim) []*driver.Claim {
	return slices.DeleteFunc(claims, func(c *driver.Claim) bool { return q.MayClaim(c.Name, c.Weight, c.Capacity) != nil })
}

// missing returns the names of the claims that the store does not have. Another failure of a renewal is an error.
func missing(claims []*driver.Claim, renewals []driver.Renewal) (names []string, err error) {
	for i, r := range renewals {
		switch {
		case errors.Is(r.Err, driver.ErrGone):
			names = append(names, claims[i].Name)
		case r.Err != nil:
			return nil, r.Err
		}
	}
	return names, nil
}

// listed returns the claims of the keys of a session, as the session lists them.
func (f *Front) listed(s *session) (all []*driver.Claim, err error) {
	for name, nonce := range s.Keys {
		c, err := f.held(s, &hold{Session: s.Session, By: s.By, Nonce: nonce}, name, capacityOf(nonce))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// claims returns the claims of a session on some names, as they stand in the store.
func (f *Front) claims(ctx context.Context, s *session, names iter.Seq[string]) (all []*driver.Claim, err error) {
	for name := range names {
		l, err := f.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		for at, h := range allOf(l, s.Session) { // none if it is lost, or has not entered yet
			c, err := f.held(s, h, name, l.Capacity)
			if err != nil {
				return nil, err
			}
			c.Ticket = at.Ticket
			all = append(all, c)
		}
	}
	return all, nil
}
