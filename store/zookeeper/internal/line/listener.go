package line

import (
	"sync"
	"time"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A Signal wakes its waiters, once.
type Signal struct {
	once   sync.Once
	Raised chan struct{} // closed when the signal is raised
}

// NewSignal returns a signal that is not raised yet.
func NewSignal() *Signal { return &Signal{Raised: make(chan struct{})} }

// isRaised reports whether the signal was raised, and so is used up.
func (b *Signal) isRaised() bool {
	select {
	case <-b.Raised:
		return true
	default:
		return false
	}
}

// raise raises the signal. A second call is harmless.
func (b *Signal) raise() { b.once.Do(func() { close(b.Raised) }) }

// A listener has the watches of a claim: on its own node, and on the nodes that must go before it holds. The caller of each
// method holds mu.
type listener struct {
	own    *wire.Watch            // on its node; shows its removal
	ownAt  time.Duration          // when the janitor sets own, if it does not stand
	guards map[string]*wire.Watch // on nodes ahead of it, by name
	next   *wire.Watch            // the guard of the only node ahead, if no other node can replace that one; else nil
	signal *Signal                // wakes the waiter; nil without watches
	head   *wire.Call             // the answer about the node at the head; nil while unknown
	demand demand
}

// A demand counts how often somebody has asked the claim for the lock.
type demand struct {
	count   int64 // all requests so far
	told    int64 // the count that the last renewal reported
	counted int64 // the count in the node's data when they were last read
}

// ready replaces a signal that was raised, or is missing.
func (l *listener) ready() {
	if l.signal == nil || l.signal.isRaised() {
		l.unwatch() // the other watches would raise the old signal
		l.signal = NewSignal()
	}
}

// raise wakes the waiter, if there is one, so that it looks again.
func (l *listener) raise() {
	if l.signal != nil {
		l.signal.raise()
	}
}

// guard drops the guards of all nodes except these, and returns the names of nodes without a guard.
func (l *listener) guard(names []string) (missing []string) {
	kept := map[string]*wire.Watch{}
	for _, name := range names {
		if watch := l.guards[name]; watch.Stands() {
			kept[name] = watch
			delete(l.guards, name)
			continue
		}
		missing = append(missing, name)
	}
	for _, watch := range l.guards {
		watch.Drop()
	}
	l.guards = kept
	return missing
}

// watched notes the new watches. It reports whether some of their nodes went meanwhile.
func (l *listener) watched(w *watching) (went bool) {
	if l.head = w.head; w.head != nil && w.head.Err != nil {
		l.head, w.head = nil, nil // the head went; only the end of a guard is a reason to look again
	}
	for name, c := range w.added {
		switch {
		case c.Err != nil:
			went = true // or the client may not read it; a new list shows which
		case l.guards == nil:
			c.Unwatch() // meanwhile the claim must go
		default:
			l.guards[name] = c.Watch()
		}
	}
	l.next = l.guards[w.next]
	return went
}

// unwatch drops the guards, and wakes the waiter.
func (l *listener) unwatch() {
	for _, w := range l.guards {
		w.Drop()
	}
	l.guards, l.next = nil, nil
	l.raise()
	l.signal = nil
}

// drop drops all watches.
func (l *listener) drop() {
	l.own.Drop()
	l.unwatch()
}

// takeOwn takes a new watch on the claim's own node, and counts requests for the lock by its data: stile writes a count
// there, and Curator overwrites the data. The version is the one of the data as they were read before.
func (l *listener) takeOwn(c *wire.Call, held *znode.Data, version int32) {
	l.demand.hear(c.Data == znode.RevokeWord && c.Stat.Version != version, held.Asks)
	l.own.Drop()
	l.own = c.Watch()
}

// hear counts a revocation by Curator, or the requests that stile has counted since the last time.
func (d *demand) hear(revoked bool, asks int64) {
	switch {
	case revoked:
		d.count++
	case asks > d.counted:
		d.count += asks - d.counted
	}
	d.counted = asks
}

// untold reports whether there are requests that no renewal has reported.
func (d *demand) untold() bool { return d.count > d.told }

// tell returns the count for a renewal, which reports it.
func (d *demand) tell() int64 {
	d.told = d.count
	return d.count
}
