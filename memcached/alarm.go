package memcached

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/stilelock/stile/driver"
)

// An alarm knows the claims that a client has in the server, and has them renewed at once when the server turns out to
// be another process than before, which has none of them.
type alarm struct {
	mu   sync.Mutex // guards what follows
	ids  map[string]bool
	ring func(ids ...string) // nil if nobody asked to be told
}

// set names who is told.
func (a *alarm) set(endangered func(ids ...string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring, a.ids = endangered, map[string]bool{}
}

// note notes that a claim is in the server, or no longer is, as the error of a request for it says.
func (a *alarm) note(id string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, driver.ErrGone):
		delete(a.ids, id)
	case err == nil && a.ring != nil:
		a.ids[id] = true
	}
}

// drop notes that a claim was asked to leave. Nobody holds it any more, whatever became of that.
func (a *alarm) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ids, id)
}

// watched reports whether there is a claim to be told of.
func (a *alarm) watched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids) > 0
}

// raise has all claims renewed.
func (a *alarm) raise() {
	a.mu.Lock()
	ids, ring := slices.Collect(maps.Keys(a.ids)), a.ring
	a.mu.Unlock()
	if len(ids) > 0 {
		ring(ids...)
	}
}
