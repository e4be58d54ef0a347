package quorum

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	spread        = time.Millisecond // waiters of a free name try within this time, at random
	spreads       = 6                // how often contention doubles this time at most
	manyContended = 1024             // names; at this number all are forgotten
)

// A contention estimates how many claims want each name.
type contention struct {
	mu    sync.Mutex     // guards what follows
	names map[string]int // how often the time within which waiters try is doubled
}

// spread returns a random time for which a claim leaves a name to the other waiters.
func (t *contention) spread(name string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rand.N(spread << t.names[name])
}

// missed notes that a claim came too late, or was kept out.
func (t *contention) missed(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.names) >= manyContended {
		clear(t.names)
	}
	t.names[name] = min(t.names[name]+1, spreads)
}

// below reports whether the contention for a name is below this.
func (t *contention) below(name string, many int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[name] < many
}

// caught notes that a claim came to hold.
func (t *contention) caught(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.names[name]; n > 1 {
		t.names[name] = n - 1
	} else {
		delete(t.names, name)
	}
}
