package memcached

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// An alarm knows a client's claims in the server, and renews them at once when the server turns out to be another process
// than before, which has none of them.
type alarm struct {
	mu   sync.Mutex // guards the fields below
	ids  known.IDs
	ring func(ids ...string) // nil if nobody wants alerts
}

// set sets the function that gets the ids of endangered claims.
func (a *alarm) set(endangered func(ids ...string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring, a.ids = endangered, known.IDs{}
}

// note notes that a claim is in the server, or no longer is, by the error of a request for it.
func (a *alarm) note(c *driver.Claim, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, driver.ErrGone):
		a.ids.Drop(c.ID)
	case err == nil && a.ring != nil:
		a.ids.Add(c)
	}
}

// drop notes that a claim was asked to leave. Nobody holds it any more, whatever the outcome.
func (a *alarm) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids.Drop(id)
}

// watched reports whether there are claims to alert of.
func (a *alarm) watched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ids.Len() > 0
}

// raise makes the client renew all claims.
func (a *alarm) raise() {
	a.mu.Lock()
	ids, ring := a.ids.All(), a.ring
	a.mu.Unlock()
	if len(ids) > 0 {
		ring(ids...)
	}
}
