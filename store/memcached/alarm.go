package memcached

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// An alarm knows the claims that a client has in the server, and renews them at once when the server turns out to be
// another process than before, which has none of them.
type alarm struct {
	mu   sync.Mutex // guards what follows
	ids  known.IDs
	ring func(ids ...string) // nil if nobody asked to be told
}

// set names who is told.
func (a *alarm) set(endangered func(ids ...string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring, a.ids = endangered, known.IDs{}
}

// note notes that a claim is in the server, or no longer is, as the error of a request for it says.
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

// drop notes that a claim was asked to leave. Nobody holds it any more, whatever became of that.
func (a *alarm) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids.Drop(id)
}

// watched reports whether there is a claim to be told of.
func (a *alarm) watched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ids.Len() > 0
}

// raise renews all claims.
func (a *alarm) raise() {
	a.mu.Lock()
	ids, ring := a.ids.All(), a.ring
	a.mu.Unlock()
	if len(ids) > 0 {
		ring(ids...)
	}
}
