package consul

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
)

var errOtherStore = errors.New("the Consul that answers is not the one that answered before, or was restored from an old copy: " +
	"its tokens mean nothing here; open it anew")

// A storeIndex is the newest index of the store that this client has seen. A later write has a higher index, unless the
// store was wiped, swapped or restored. Such a store would give the same tokens again.
type storeIndex struct {
	mu       sync.Mutex // guards the fields below
	newest   uint64
	replaced bool
}

// seen returns the newest index, for a request that is about to be sent.
func (s *storeIndex) seen() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced {
		return 0, driver.Refused(errOtherStore)
	}
	return s.newest, nil
}

// saw notes the indexes of keys in an answer.
func (s *storeIndex) saw(pairs []pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pairs {
		s.newest = max(s.newest, pairs[i].ModifyIndex)
	}
}

// wrote checks the key of an entry that a request wrote; seen was the newest index when the request was sent.
func (s *storeIndex) wrote(e *entry, seen uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced = s.replaced || e != nil && e.ModifyIndex <= seen
	if s.replaced {
		return driver.Refused(errOtherStore)
	}
	return nil
}
