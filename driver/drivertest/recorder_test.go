package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// A recorder records the failures of a case that must fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards failures
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record returns the failures of a function. The function runs on a goroutine of its own, since a failure may end it.
func record(t *testing.T, run func(testing.TB)) (failures []string) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	return r.failures
}

// caseOf returns the case with a name.
func caseOf(t *testing.T, name string) Case {
	t.Helper()
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no case %s", name)
	}
	return Cases()[i]
}

// found runs one case, and returns its failures.
func found(t *testing.T, name string, s Store) []string {
	t.Helper()
	c := caseOf(t, name)
	return record(t, func(r testing.TB) {
		a, b := s.Open(t), s.Open(t)
		defer a.Close()
		defer b.Close()
		check(r, s, a, b, c)
	})
}

// finds checks that one case fails if a store has a bug, and passes if it has none.
func finds(t *testing.T, name string, s Store, bug bool) {
	t.Helper()
	if failures := found(t, name, s); len(failures) > 0 != bug {
		t.Errorf("the case %s fails with %q; want that it fails: %v", name, failures, bug)
	}
}
