// Package promise keeps what a store promises, and has the store asked again once a driver was connected to it anew: the
// servers may have other settings after a restart, and others may answer after a failover.
//
//	         connections are made            Traits
//	asked ─────────────────────────► stale ─────────► asking ──the store answers──► asked
//	                                   ▲                 │
//	                                   └──no answer──────┘
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

// A Promise is what a store promises, as it answered last.
type Promise struct {
	// Connections counts how often the store was connected to, and may only rise.
	Connections func() int64 // [Periods] for a driver that does not see them, or whose store changes without
	// Ask asks the store. It ends soon after its context.
	Ask func(ctx context.Context) (driver.Traits, error)
	// Life is the driver's.
	Life *work.Life

	mu     sync.Mutex // guards what follows
	traits driver.Traits
	at     int64 // the connections when the store was asked
	asking bool
}

// reaskEvery is how often a store is asked again whose connections are not seen.
const reaskEvery = 10 * time.Second

// Periods returns a count for [Promise.Connections] that rises with the time, so that the store is asked again every 10 s.
func Periods() func() int64 {
	begin := time.Now()
	return func() int64 { return int64(time.Since(begin) / reaskEvery) }
}

// Set says what the store promises, as it answered when the driver was made.
func (p *Promise) Set(t driver.Traits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traits, p.at = t, p.Connections()
}

// Traits returns what the store promises. If it was connected to since it answered, it is asked again meanwhile, and what it
// answers is what a later call returns.
func (p *Promise) Traits() driver.Traits {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Connections(); now != p.at && !p.asking {
		p.asking = p.Life.Go(func() { p.ask(now) })
	}
	return p.traits
}

// ask asks the store, which was connected to so often by then.
func (p *Promise) ask(at int64) {
	t, err := p.Ask(p.Life.Context())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking = false; err == nil {
		p.traits, p.at = t, at
	}
}
