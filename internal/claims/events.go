package claims

import (
	"math"
	"sync"
	"time"

	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// An Event is a message for the observer. Not all fields go with every kind.
type Event struct {
	protocol.Event
	Name    string
	Err     error
	Taken   string // of a forgotten lease: file and line of the call that acquired it
	Dropped int64  // events lost before this one, since the observer was too slow
}

// Asked is the kind of an event without a part of the engine: somebody asks the holder for the lock. Package stile, whose
// kinds follow the engine's, gives it this number.
const Asked = protocol.Released + 2

// maxEvents is the most events that wait for the observer.
const maxEvents = 4096

// events report to an observer, in order, from one goroutine. Safety comes first: leases end and locks are handed on without
// waiting for the observer; events beyond maxEvents are dropped and counted.
type events struct {
	observe func(Event)
	ready   chan struct{} // has room for one
	ended   chan struct{} // closed after the last event, once close is called

	mu      sync.Mutex // guards the fields below
	waiting []Event
	dropped int64
	closed  bool
}

func newEvents(observe func(Event)) *events {
	e := &events{observe: observe, ready: make(chan struct{}, 1), ended: make(chan struct{})}
	go e.run()
	return e
}

// add queues an event for the observer.
func (e *events) add(v Event) {
	e.mu.Lock()
	if len(e.waiting) == maxEvents || e.closed {
		e.dropped++
	} else {
		v.Dropped, e.dropped = e.dropped, 0
		e.waiting = append(e.waiting, v)
	}
	e.mu.Unlock()
	select {
	case e.ready <- struct{}{}:
	default:
	}
}

func (e *events) run() {
	defer close(e.ended)
	var spare []Event
	for range e.ready {
		e.mu.Lock()
		list, closed := e.waiting, e.closed
		e.waiting = spare[:0]
		e.mu.Unlock()
		for i := range list {
			e.observe(list[i])
		}
		clear(list)
		if spare = list; closed {
			return
		}
	}
}

// close waits until the observer has every event, but no longer than most: the observer itself may be the caller.
func (e *events) close(most time.Duration) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	select {
	case e.ready <- struct{}{}:
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-e.ended:
	case <-timer.C:
	}
}

// askedLocked notifies the observer if the store counts more requests for a claim's lock than in its last answer. A falling
// count comes from another store, to which the name has moved.
func (n *name) askedLocked(c *claim, count int64) {
	k, asks := n.shard.k, int32(min(count, math.MaxInt32))
	if asks > c.asked && k.events != nil && n.slots[c.slot].claim == c {
		k.events.add(Event{Event: protocol.Event{Kind: Asked, Token: n.engine.Ticket(c.slot) * engine.Turns}, Name: c.name})
	}
	c.asked = asks
}

// tell queues an event of a name for the observer.
func (n *name) tell(v protocol.Event, err error) {
	if n.shard.k.events != nil {
		n.shard.k.events.add(Event{Event: v, Name: n.text, Err: err})
	}
}
