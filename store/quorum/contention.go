package quorum

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	spread        = time.Millisecond // within which those who wait for a name try, when it is free
	spreads       = 6                // how often that doubles where many do
	manyContended = 1024             // names, until they are forgotten
)

// A contention is how many claims seem to want each name.
type contention struct {
	mu    sync.Mutex     // guards what follows
	names map[string]int // as the power of two of the time within which they try
}

// spread returns for how long a claim is to leave a name to others that wait for it, at random.
func (t *contention) spread(name string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rand.N(spread << t.names[name])
}

// missed notes that a claim came too late, or others are in the way.
func (t *contention) missed(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.names) >= manyContended {
		clear(t.names)
	}
	t.names[name] = min(t.names[name]+1, spreads)
}

// below reports whether fewer claims than so many are known to have missed a name.
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
