package wire

import "sync"

// A Watch fires once: when its node changes after the read that set the watch, or when the connection is lost, since no
// change is heard of after that. It stands from the call that sets it until it fires or is dropped.
type Watch struct {
	fire func()

	mu    sync.Mutex // guards what follows; no other lock is taken under it
	state watchState
	on    *conn
	key   watchKey
}

type watchState int

const (
	unset watchState = iota
	stands
	over
	gone // over, since the node was deleted while the watch stood
)

// NewWatch returns a watch that calls fire once, in the goroutine that reads the connection. So fire must return soon and
// call nothing of this package.
func NewWatch(fire func()) *Watch { return &Watch{fire: fire} }

// Stands reports whether the watch was set and has not fired.
func (w *Watch) Stands() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == stands
}

// Gone reports whether the watch fired because its node was deleted. A server reports changes to a connection in their
// order. So a standing watch of the same connection has missed no earlier change when this one is gone.
func (w *Watch) Gone() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == gone
}

// Drop makes sure that the watch fires no more. A nil watch counts as dropped.
func (w *Watch) Drop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	on, key := w.on, w.key
	w.state, w.on = over, nil
	w.mu.Unlock()
	if on != nil {
		on.watches.remove(key, w)
	}
}

// told moves the watch to an end state, and fires it if it stood.
func (w *Watch) told(now watchState) {
	w.mu.Lock()
	tell := w.state == stands
	if tell {
		w.state = now
	}
	w.on = nil
	w.mu.Unlock()
	if tell {
		w.fire()
	}
}

// A watchKey identifies a watch at the server, which keeps one for all calls that ask for the same.
type watchKey struct {
	path     string
	children bool
}

// watches are the watches of one connection.
type watches struct {
	mu sync.Mutex
	by map[watchKey]map[*Watch]bool
}

// add registers a watch before its call is sent, so that no event is missed. A watch that was used before is not
// registered.
func (ws *watches) add(c *conn, call *Call) {
	w := call.watch
	key := watchKey{call.path, call.op == opChildren2}
	w.mu.Lock()
	if w.state != unset {
		w.mu.Unlock()
		return
	}
	w.state, w.on, w.key = stands, c, key
	w.mu.Unlock()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by == nil {
		ws.by = map[watchKey]map[*Watch]bool{}
	}
	if ws.by[key] == nil {
		ws.by[key] = map[*Watch]bool{}
	}
	ws.by[key][w] = true
}

func (ws *watches) remove(key watchKey, w *Watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.by[key], w)
	if len(ws.by[key]) == 0 {
		delete(ws.by, key)
	}
}

func (ws *watches) count() (n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, of := range ws.by {
		n += len(of)
	}
	return n
}

// The protocol's numbers of events.
const (
	nodeDeleted         int32 = 2
	nodeChildrenChanged int32 = 4
)

// event fires the watches that an event concerns.
func (ws *watches) event(kind int32, path string) {
	ws.mu.Lock()
	var told []*Watch
	for _, key := range []watchKey{{path, false}, {path, true}} {
		if kind == nodeDeleted || (kind == nodeChildrenChanged) == key.children {
			for w := range ws.by[key] {
				told = append(told, w)
			}
			delete(ws.by, key)
		}
	}
	ws.mu.Unlock()
	now := over
	if kind == nodeDeleted {
		now = gone
	}
	for _, w := range told {
		w.told(now)
	}
}

// end fires all watches, since the connection is gone. No watch is added after that.
func (ws *watches) end() {
	ws.mu.Lock()
	var told []*Watch
	for _, of := range ws.by {
		for w := range of {
			told = append(told, w)
		}
	}
	ws.by = nil
	ws.mu.Unlock()
	for _, w := range told {
		w.told(over)
	}
}
