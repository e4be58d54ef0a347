package mysql

import (
	"hash/maphash"
	"sync/atomic"
)

// contended remembers of which names this client met others in the queue when it last entered, renewed or left. The next time
// it most likely does again, and then does not try what works only alone. Names of one hash share what is remembered: to be
// wrong costs a round trip, and nothing else.
type contended struct {
	seed  maphash.Seed
	names [1024]atomic.Bool
}

func newContended() *contended { return &contended{seed: maphash.MakeSeed()} }

// of returns what is remembered of a name.
func (q *contended) of(name string) *atomic.Bool {
	return &q.names[maphash.String(q.seed, name)%uint64(len(q.names))]
}
