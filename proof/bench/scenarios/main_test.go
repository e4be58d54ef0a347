//go:build unix

package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestScenarios runs each of them for a moment, so that none has rotted when somebody wants to compare.
func TestScenarios(t *testing.T) {
	names := map[string]string{}
	for _, s := range scenarios {
		t.Run(s.key, func(t *testing.T) {
			if s.key == "renewing" { // a busy machine stands still for longer than the leases of so short a window last
				synctest.Test(t, func(t *testing.T) { testScenario(t, s, names) })
				return
			}
			testScenario(t, s, names)
		})
	}
}

func testScenario(t *testing.T, s scenario, names map[string]string) {
	r := &run{url: "memory://" + s.key, ttl: 15 * time.Second, window: 100 * time.Millisecond, name: s.key}
	figures, err := s.run(r)
	if err != nil || len(figures) == 0 {
		t.Fatalf("figures are %v, %v; want some", figures, err)
	}
	for _, f := range figures {
		if f.Value <= 0 {
			t.Errorf("%s = %v, want more than 0", f.Name, f.Value)
		}
		if other := names[f.Name]; other != "" {
			t.Errorf("%s is a figure of %s too", f.Name, other)
		}
		names[f.Name] = s.key
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

// TestHeap has a held lease and a local waiter cost no more heap than they may, on the memory store.
func TestHeap(t *testing.T) {
	for _, want := range []struct {
		run   func(*run) ([]figure, error)
		limit float64
	}{
		{heldBytes, 1024}, {waiterBytes, 1024},
	} {
		r := &run{url: "memory://heap", ttl: time.Minute, window: time.Second, name: "heap"}
		figures, err := want.run(r)
		if err := errors.Join(err, r.close()); err != nil {
			t.Fatal(err)
		}
		if got := figures[0]; got.Value >= want.limit {
			t.Errorf("%s are %.0f, want fewer than %.0f", got.Name, got.Value, want.limit)
		}
	}
}
