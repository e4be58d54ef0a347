package postgres

import (
	"hash/maphash"
	"sync/atomic"
)

// contended remembers of which names the last claim of this driver that entered was not the first in the queue. The next most
// likely is not either, and then trying the short way first costs the server more than to leave it out. Names of one hash
// share what is remembered: to be wrong costs no more than time.
type contended struct {
	seed  maphash.Seed
	names [1024]atomic.Bool
}

func newContended() *contended { return &contended{seed: maphash.MakeSeed()} }

// of returns what is remembered of a name.
func (c *contended) of(name string) *atomic.Bool {
	return &c.names[maphash.String(c.seed, name)%uint64(len(c.names))]
}
