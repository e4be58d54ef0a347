package postgres

import (
	"hash/maphash"
	"sync/atomic"
)

// contended remembers the names for which this driver's last claim was not the first in the queue when it entered. Most
// likely the next one is not either, and then trying the short way first costs the server more than leaving it out. Names
// with the same hash share an entry: a mistake only costs time.
type contended struct {
	seed  maphash.Seed
	names [1024]atomic.Bool
}

func newContended() *contended { return &contended{seed: maphash.MakeSeed()} }

// of returns the entry of a name.
func (c *contended) of(name string) *atomic.Bool {
	return &c.names[maphash.String(c.seed, name)%uint64(len(c.names))]
}
