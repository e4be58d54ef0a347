package guard

import (
	"context"
	"sync"
)

// Marks keep the mark of each resource: the highest token that was raised there. Many goroutines may call Raise at once. If
// it returns nil, a lower token is refused from then on. Its errors are the errors of this package, or the store's own error
// if the mark could not be raised or the outcome is unknown.
type Marks interface {
	Raise(ctx context.Context, resource string, token int64) error
}

// Memory guards data in the memory of one process. Its marks end with the process. The zero value is ready, and has no
// marks. A mark takes some bytes, and is never removed.
type Memory struct {
	mu    sync.Mutex // guards marks
	marks map[string]*mark
}

// A mark is the highest token of one resource.
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

// Raise shows a token to a resource. It waits while Do runs a function on the resource, and ignores the context.
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

// Do checks a raised token and runs f, which reads or writes the resource. Only one such function runs at a time, and no
// other token can be raised meanwhile. Do returns the error of f. f must not call Do for the same resource.
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
