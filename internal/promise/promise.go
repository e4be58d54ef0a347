// Package promise keeps the promises of a store, and asks the store again once a driver has reconnected to it: the
// servers may have other settings after a restart, and others may answer after a failover. Connections do not show
// all of that: a setting can be changed while they stay, a replica can become a primary, and a server that is being
// replaced can be the one that answers. So the store is asked again every 10 s too.
//
//	         connections are made, or 10 s            Traits
//	asked ──────────────────────────────────► stale ─────────► asking ──the store answers──► asked
//	                                            ▲                 │
//	                                            └──no answer──────┘
//
// Nobody asks the store unless somebody asks for its traits, so a client that requires nothing causes no request.
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
	// Connections counts how often the store was connected to, and may only rise. It is called by one at a time.
	Connections func() int64 // nil for a driver that does not see them
	// Ask asks the store. It ends soon after its context.
	Ask func(ctx context.Context) (driver.Traits, error)
	// Life is the driver's.
	Life *work.Life

	mu     sync.Mutex // guards what follows
	traits driver.Traits
	asked  moment // when the store was asked that
	asking bool
}

// A moment is when a store was asked.
type moment struct {
	time        time.Time
	connections int64
}

// reaskEvery is how often a store is asked again to which no connections were made.
const reaskEvery = 10 * time.Second

// nowLocked returns the moment that is now.
func (p *Promise) nowLocked() moment {
	m := moment{time: time.Now()}
	if p.Connections != nil {
		m.connections = p.Connections()
	}
	return m
}

// Set sets the store's promise, as it answered when the driver was made.
func (p *Promise) Set(t driver.Traits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traits, p.asked = t, p.nowLocked()
}

// Traits returns the store's promises. If the last answer is too old, or from before the last connection, the store
// is asked again meanwhile, and a later call returns the new answer.
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
