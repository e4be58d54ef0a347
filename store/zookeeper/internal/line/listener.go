package line

import (
	"sync"
	"time"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A Signal is raised once.
type Signal struct {
	once   sync.Once
	Raised chan struct{}
}

// NewSignal returns a signal that was not raised.
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

// raise raises the signal. Twice is harmless.
func (b *Signal) raise() { b.once.Do(func() { close(b.Raised) }) }

// A listener is what a claim hears: of its own node, and of those that must go before it. The caller of each method holds mu.
type listener struct {
	own    *wire.Watch   // on its node, so that a removal is noticed
	ownAt  time.Duration // when own must be set, if it does not stand
	guards map[string]*wire.Watch
	next   *wire.Watch // on the only node ahead of it, if no other node can replace that one; else nil
	signal *Signal     // raised when a claim ahead goes; nil while nobody watches
	head   *wire.Call  // answer about the claim at the head; nil while unknown
	demand demand
}

// A demand is what was heard of those who ask a claim for the lock.
type demand struct {
	count   int64 // how often somebody has asked
	told    int64 // the value of asks that the last renewal reported
	counted int64 // the count in the node's data, which stile's clients write
}

// ready has the signal be one that was not raised yet.
func (l *listener) ready() {
	if l.signal == nil || l.signal.isRaised() {
		l.unwatch() // the other watches would raise the old signal
		l.signal = NewSignal()
	}
}

// raise has the waiter look again, if there is one.
func (l *listener) raise() {
	if l.signal != nil {
		l.signal.raise()
	}
}

// guard lets go of the watches on other nodes than these, and returns those that are not watched yet.
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

// watched notes what is watched now. It reports whether some of that went meanwhile.
func (l *listener) watched(w *watching) (went bool) {
	if l.head = w.head; w.head != nil && w.head.Err != nil {
		l.head, w.head = nil, nil // it went meanwhile, but that is no reason to look again
	}
	for name, c := range w.added {
		switch {
		case c.Err != nil:
			went = true // or it may not be read; a new list shows which
		case l.guards == nil:
			c.Unwatch() // meanwhile it became a claim that must go
		default:
			l.guards[name] = c.Watch()
		}
	}
	l.next = l.guards[w.next]
	return went
}

// unwatch drops the watches on other nodes, and has the waiter look again.
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

// watches notes a new watch on the claim's own node, and how often somebody has asked for the lock: stile counts in the node's
// data, and Curator overwrites them. The version is that of the data that were read before.
func (l *listener) watches(c *wire.Call, held *znode.Data, version int32) {
	l.demand.hear(c.Data == znode.RevokeWord && c.Stat.Version != version, held.Asks)
	l.own.Drop()
	l.own = c.Watch()
}

// hear notes how often somebody has asked for the lock.
func (d *demand) hear(revoked bool, asks int64) {
	switch {
	case revoked:
		d.count++
	case asks > d.counted:
		d.count += asks - d.counted
	}
	d.counted = asks
}

// fresh reports whether there is something that no renewal has told.
func (d *demand) fresh() bool { return d.count > d.told }

// tell returns how often somebody has asked, for a renewal.
func (d *demand) tell() int64 {
	d.told = d.count
	return d.count
}
