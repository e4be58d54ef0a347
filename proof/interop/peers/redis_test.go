//go:build unix

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeHold is a lock that can be renewed a number of times.
type fakeHold struct{ left, renewed, released int }

func (h *fakeHold) renew(context.Context) error {
	if h.renewed++; h.renewed > h.left {
		return errors.New("the lock was not held")
	}
	return nil
}

func (h *fakeHold) release(context.Context) error {
	h.released++
	return nil
}

// A keyLocker does the library's missing part: it renews every third of the lease, until a renewal fails or the program
// unlocks.
func TestKeyLocker(t *testing.T) {
	for _, tt := range []struct {
		name    string
		left    int
		renewed int // after three leases
	}{
		{"held", 100, 9},
		{"lost", 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fakeHold{left: tt.left}
				busy := 3
				l := &keyLocker{shut: func() {}, take: func(context.Context, string) (hold, error) {
					if busy--; busy > 0 {
						return nil, errTaken
					}
					return h, nil
				}}
				if _, ok, err := l.try(t.Context(), "name"); ok || err != nil {
					t.Errorf("a try of a lock that is taken = %v, %v; want false, nil", ok, err)
				}
				start := time.Now()
				if _, err := l.lock(t.Context(), "name"); err != nil || time.Since(start) != between {
					t.Errorf("lock = %v after %v; want nil after %v", err, time.Since(start), between)
				}
				<-time.After(3*session + session/6)
				synctest.Wait()
				if h.renewed != tt.renewed {
					t.Errorf("it is renewed %d times, want %d", h.renewed, tt.renewed)
				}
				if err := l.unlock(t.Context()); err != nil || h.released != 1 {
					t.Errorf("unlock = %v, %d releases; want nil, 1", err, h.released)
				}
				<-time.After(session)
				synctest.Wait()
				if h.renewed != tt.renewed {
					t.Error("it is renewed after its release")
				}
				l.close()
			})
		})
	}
	failed := errors.New("no server")
	l := &keyLocker{shut: func() {}, take: func(context.Context, string) (hold, error) { return nil, failed }}
	if _, err := l.lock(t.Context(), "name"); !errors.Is(err, failed) {
		t.Errorf("lock = %v; want %v", err, failed)
	}
	l.close()
}
