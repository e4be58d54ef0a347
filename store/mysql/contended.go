package mysql

import (
	"hash/maphash"
	"sync/atomic"
)

// contended remembers the names for which this client met other claims in the queue: before its own when it last entered,
// and behind its own when it last renewed or left. Most likely it will meet claims again, and so does not try the short way
// for a lone claim. Names with the same hash share an entry: a mistake only costs a round trip.
type contended struct {
	seed            maphash.Seed
	entered, leaves [1024]atomic.Bool
}

func newContended() *contended { return &contended{seed: maphash.MakeSeed()} }

// entering reports whether the client met others when it entered.
func (c *contended) entering(name string) *atomic.Bool { return &c.entered[c.of(name)] }

// leaving reports whether the client met others behind it when it renewed or left.
func (c *contended) leaving(name string) *atomic.Bool { return &c.leaves[c.of(name)] }

func (c *contended) of(name string) uint64 {
	return maphash.String(c.seed, name) % uint64(len(c.entered))
}

// changed notes how many claims were in a queue before and after a change by this client.
func (c *contended) changed(name string, before, after int) {
	switch {
	case after == 0:
		c.entering(name).Store(false)
		c.leaving(name).Store(false)
	case after > before:
		c.entering(name).Store(before > 0)
	case after < before || after > 1:
		c.leaving(name).Store(true)
	}
}
