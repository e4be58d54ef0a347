// Package promise keeps the traits of a store, and asks the store again after a driver has reconnected: the servers may have
// other settings after a restart, and other servers may answer after a failover. Connections do not show every change: a
// setting can change while they stay, a replica can become a primary, and a server that is being replaced can be the one
// that answers. So the store is also asked every 10 s.
//
//	         connections are made, or 10 s            Traits
//	asked ──────────────────────────────────► stale ─────────► asking ──the store answers──► asked
//	                                            ▲                 │
//	                                            └──no answer──────┘
//
// The store is asked only if somebody asks for its traits, so a client without requirements causes no request.
package promise

import (
	"context"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// A Promise has the last answer of a store about its promises.
type Promise struct {
	// Connections returns the number of connections made to the store so far. One goroutine at a time calls it.
	Connections func() int64 // nil if the driver does not see them
	// Ask asks the store. It ends soon after its context.
	Ask func(ctx context.Context) (driver.Traits, error)
	// Life is the driver's life.
	Life *work.Life

	mu     sync.Mutex // guards the fields below
	traits driver.Traits
	asked  moment // when the store was asked for traits
	asking bool
}

// A moment is when a store was asked.
type moment struct {
	time        time.Time
	connections int64
}

// reaskEvery is the pause between questions without new connections.
const reaskEvery = 10 * time.Second

// nowLocked returns the present moment.
func (p *Promise) nowLocked() moment {
	m := moment{time: time.Now()}
	if p.Connections != nil {
		m.connections = p.Connections()
	}
	return m
}

// Set sets the store's traits, as the store answered when the driver was made.
func (p *Promise) Set(t driver.Traits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traits, p.asked = t, p.nowLocked()
}

// Traits returns the store's traits. If the last answer is too old, or from before the last connection, the store is asked
// in the background, and a later call returns the new answer.
func (p *Promise) Traits() driver.Traits {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.nowLocked()
	stale := now.connections != p.asked.connections || now.time.Sub(p.asked.time) >= reaskEvery
	if stale && !p.asking {
		p.asking = p.Life.Go(func() { p.askStore(now) })
	}
	return p.traits
}

// askStore asks the store, at a moment.
func (p *Promise) askStore(at moment) {
	t, err := p.Ask(p.Life.Context())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking = false; err == nil {
		p.traits, p.asked = t, at
	}
}
