package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// A recorder takes the failures of a case that ought to fail.
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

// record returns what fails in a function, which runs on a goroutine of its own, since a failure may end that.
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

// caseOf returns the case of a name.
func caseOf(t *testing.T, name string) Case {
	t.Helper()
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no case %s", name)
	}
	return Cases()[i]
}

// found runs one case, and returns what fails in it.
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

// finds demands that one case fails if a store has a bug, and does not if it has none.
func finds(t *testing.T, name string, s Store, bug bool) {
	t.Helper()
	if failures := found(t, name, s); len(failures) > 0 != bug {
		t.Errorf("the case %s fails with %q; want that it fails: %v", name, failures, bug)
	}
}
