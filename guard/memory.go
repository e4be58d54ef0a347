package guard

import (
	"context"
	"sync"
)

// Marks keep the marks of resources: the highest token that each was shown. Raise may be called at once by many
// goroutines; if it returns nil, a lower token is refused from then on. Its errors are those of this package, or the
// store's own if the mark could not be raised or it is not known whether it was.
type Marks interface {
	Raise(ctx context.Context, resource string, token int64) error
}

// Memory guards what is in the memory of one process, and forgets with it. The zero value is ready, and has no marks. A
// mark takes some bytes, and stays.
type Memory struct {
	mu    sync.Mutex // guards marks
	marks map[string]*mark
}

// A mark is that of one resource.
type mark struct {
	mu    sync.Mutex // held while the mark changes and while Do runs
	token int64
}

func (m *Memory) of(resource string) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks == nil {
		m.marks = map[string]*mark{}
	}
	if m.marks[resource] == nil {
		m.marks[resource] = &mark{}
	}
	return m.marks[resource]
}

// Raise shows a token to a resource. It waits while a function that Do runs is at work on the resource; it does not heed
// the context.
func (m *Memory) Raise(_ context.Context, resource string, token int64) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	k := m.of(resource)
	k.mu.Lock()
	defer k.mu.Unlock()
	if token < k.token {
		return &StaleError{resource, token, k.token}
	}
	k.token = token
	return nil
}

// Do checks a token that was raised, and runs f, which reads or writes the resource, before any other token can be
// raised and one at a time. It returns the error of f. It must not be called by f for the same resource.
func (m *Memory) Do(resource string, token int64, f func() error) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	k := m.of(resource)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := Judge(resource, token, k.token); err != nil {
		return err
	}
	return f()
}
