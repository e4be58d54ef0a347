// Package contention is for drivers that have a short way in for a claim that is alone on its name.
package contention

import (
	"hash/maphash"
	"sync/atomic"
)

// Names remembers of which names the last claim of this driver that entered was not the first in the queue. The next most
// likely is not either, and then trying the short way first costs the server more than to leave it out. Names of one hash
// share what is remembered: to be wrong costs no more than time.
type Names struct {
	seed  maphash.Seed
	names [1024]atomic.Bool
}

// New returns what remembers nothing yet.
func New() *Names { return &Names{seed: maphash.MakeSeed()} }

// Of returns what is remembered of a name.
func (n *Names) Of(name string) *atomic.Bool {
	return &n.names[maphash.String(n.seed, name)%uint64(len(n.names))]
}
