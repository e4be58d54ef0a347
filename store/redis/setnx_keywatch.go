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

// A keyWatch lets a client learn at once that somebody deleted or overwrote the key of its claim. The server reports each
// change of a key that was read (CLIENT TRACKING), including this client's own renewals. After each change the key is read
// once more, so that the server reports the next one. If the key no longer has the claim, the claim is renewed, and the
// answer to that decides. Reading changes no key, so it causes no report. A client that locks and unlocks at once pays
// nothing: see listenAfter.
type keyWatch struct {
	conn     *conn.Conn
	endanger atomic.Pointer[func(ids ...string)]

	mu    sync.Mutex           // guards the fields below
	held  map[string]heldKey   // by key
	due   map[string]time.Time // when keys are to be read; the other keys wait for a report
	timed bool                 // a read is scheduled
}

// A heldKey is the claim that holds by a key, and when it is surely over without a renewal by this client; by boottime.
type heldKey struct {
	id    string
	until time.Duration
}

func newKeyWatch(c *conn.Conn) *keyWatch {
	w := &keyWatch{conn: c, held: map[string]heldKey{}, due: map[string]time.Time{}}
	c.OnChange(w.changed)
	return w
}

// holds notes that a claim holds, whose lease begins now. A nil keyWatch is harmless.
func (w *keyWatch) holds(c *driver.Claim, key string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[key].id != c.ID {
		w.readWithinLocked(listenAfter, key)
	}
	w.held[key] = heldKey{c.ID, known.Until(c.TTL)}
}

// parts notes that a claim no longer holds.
func (w *keyWatch) parts(c *driver.Claim, key string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[key].id == c.ID {
		delete(w.held, key)
		delete(w.due, key)
	}
}

// changed is the argument of [conn.Conn.OnChange].
func (w *keyWatch) changed(keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(w.held))
	}
	for _, key := range keys {
		_, held := w.held[key]
		if _, due := w.due[key]; held && !due {
			w.readWithinLocked(lookGathered, key)
		}
	}
}

// readWithinLocked schedules a read of keys after a while.
func (w *keyWatch) readWithinLocked(after time.Duration, keys ...string) {
	for _, key := range keys {
		w.due[key] = time.Now().Add(after)
	}
	if !w.timed {
		w.timed = true
		time.AfterFunc(after, func() { w.conn.Go(w.readDue) })
	}
}

// readDue reads the keys that are due.
func (w *keyWatch) readDue() {
	w.mu.Lock()
	var keys []string
	for key, at := range w.due {
		if time.Until(at) <= 0 {
			keys = append(keys, key)
			delete(w.due, key)
		}
	}
	if w.timed = false; len(w.due) > 0 {
		w.readWithinLocked(lookGathered)
	}
	w.mu.Unlock()
	if len(keys) > 0 {
		values, ok := w.conn.Values(w.conn.Context(), keys)
		w.read(keys, values, ok)
	}
}

// read renews the claims whose keys no longer have them.
func (w *keyWatch) read(keys, values []string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var gone []string
	for i, key := range keys {
		k, held := w.held[key]
		switch {
		case !held:
		case !ok:
			w.readWithinLocked(lookAfresh, key)
		case known.Over(k.until): // another process has taken it over, and renews it
			delete(w.held, key)
		case !strings.HasPrefix(values[i], "stile1\n"+k.id+"\n"):
			gone = append(gone, k.id)
			delete(w.held, key)
		}
	}
	if f := w.endanger.Load(); f != nil && len(gone) > 0 {
		w.conn.Go(func() { (*f)(gone...) })
	}
}
