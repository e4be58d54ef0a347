package redis

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

const (
	lookGathered = 20 * time.Millisecond // after a key has changed: keys that are renewed together are read together
	lookAfresh   = time.Second           // after the server did not answer
)

// keyEars lets a client learn at once that somebody deleted or overwrote the key of its claim. The server reports
// each change of a key that was read (CLIENT TRACKING), so this client's own renewals too. After each change the key
// is read once more, so that the server reports the next one. If the claim does not stand there, it is renewed, and
// the answer to that decides. Reading changes no key, so no report follows from it. A client that locks and unlocks
// at once pays nothing: see listenAfter.
type keyEars struct {
	conn     *conn.Conn
	endanger atomic.Pointer[func(ids ...string)]

	mu    sync.Mutex           // guards what follows
	held  map[string]heldKey   // by key
	due   map[string]time.Time // when keys are to be read; for the other keys a report comes first
	timed bool                 // a look is to come
}

// A heldKey is the claim that holds by a key, and when it is surely over if it is not renewed here, by boottime.
type heldKey struct {
	id    string
	until time.Duration
}

func newKeyEars(c *conn.Conn) *keyEars {
	e := &keyEars{conn: c, held: map[string]heldKey{}, due: map[string]time.Time{}}
	c.Hear(e.changed)
	return e
}

// holds notes that a claim holds, whose lease begins now. No ears are harmless.
func (e *keyEars) holds(c *driver.Claim, key string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[key].id != c.ID {
		e.readWithinLocked(listenAfter, key)
	}
	e.held[key] = heldKey{c.ID, known.Until(c.TTL)}
}

// parts notes that a claim does not hold any more.
func (e *keyEars) parts(c *driver.Claim, key string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[key].id == c.ID {
		delete(e.held, key)
		delete(e.due, key)
	}
}

// changed is the argument of [conn.Conn.Hear].
func (e *keyEars) changed(keys ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(e.held))
	}
	for _, key := range keys {
		_, held := e.held[key]
		if _, due := e.due[key]; held && !due {
			e.readWithinLocked(lookGathered, key)
		}
	}
}

// readWithinLocked has keys read after a while.
func (e *keyEars) readWithinLocked(after time.Duration, keys ...string) {
	for _, key := range keys {
		e.due[key] = time.Now().Add(after)
	}
	if !e.timed {
		e.timed = true
		time.AfterFunc(after, func() { e.conn.Go(e.readDue) })
	}
}

// readDue reads the keys that are due.
func (e *keyEars) readDue() {
	e.mu.Lock()
	var keys []string
	for key, at := range e.due {
		if time.Until(at) <= 0 {
			keys = append(keys, key)
			delete(e.due, key)
		}
	}
	if e.timed = false; len(e.due) > 0 {
		e.readWithinLocked(lookGathered)
	}
	e.mu.Unlock()
	if len(keys) > 0 {
		values, ok := e.conn.Values(e.conn.Context(), keys)
		e.read(keys, values, ok)
	}
}

// read renews the claims that do not stand where they did.
func (e *keyEars) read(keys, values []string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var gone []string
	for i, key := range keys {
		k, held := e.held[key]
		switch {
		case !held:
		case !ok:
			e.readWithinLocked(lookAfresh, key)
		case known.Over(k.until): // it was left to another process, which renews it
			delete(e.held, key)
		case !strings.HasPrefix(values[i], "stile1\n"+k.id+"\n"):
			gone = append(gone, k.id)
			delete(e.held, key)
		}
	}
	if f := e.endanger.Load(); f != nil && len(gone) > 0 {
		e.conn.Go(func() { (*f)(gone...) })
	}
}
