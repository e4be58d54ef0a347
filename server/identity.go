package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// fresh is how long the server compares requests with an id of the store before it reads the id again.
const fresh = 10 * time.Second

// mostFormer bounds the former ids of the store that the server remembers.
const mostFormer = 8

// An identity is the store's id. The store keeps it, and the server reads it there: a store that was wiped has another id.
type identity struct {
	store driver.Identifier // nil if the store keeps no id
	turn  chan struct{}     // has an element while a request reads the id

	mu     sync.Mutex // guards the fields below
	id     string     // "" before the first read
	former []string   // earlier ids of the store, the latest last
	read   time.Time  // before the read that returned id
	doubts time.Time  // when the store last did not answer
}

func newIdentity(d driver.Driver) *identity {
	i := &identity{turn: make(chan struct{}, 1)}
	i.store, _ = d.(driver.Identifier)
	return i
}

// since returns the id that the store had at some moment after a time.
func (i *identity) since(ctx context.Context, after time.Time) (*api.IdentityAnswer, error) {
	if i.store == nil {
		return nil, driver.ErrUnsupported
	}
	if a := i.known(after); a != nil {
		return a, nil
	}
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return nil, driver.Ended(ctx, false)
	}
	if a := i.known(after); a != nil { // another request has read it meanwhile
		return a, nil
	}
	begun := time.Now()
	id, err := i.store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return i.note(id, begun), nil
}

// known returns the id if it was read after a time, and the store has answered since; otherwise nil.
func (i *identity) known(after time.Time) *api.IdentityAnswer {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id == "" || i.read.Before(after) || !i.read.After(i.doubts) {
		return nil
	}
	return &api.IdentityAnswer{Identity: i.id, Former: slices.Clone(i.former)}
}

// note takes an id that was read.
func (i *identity) note(id string, begun time.Time) *api.IdentityAnswer {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id != "" && i.id != id {
		i.former = append(i.former[max(0, len(i.former)+1-mostFormer):], i.id)
	}
	i.id, i.read = id, begun
	return &api.IdentityAnswer{Identity: i.id, Former: slices.Clone(i.former)}
}

// doubt notes that the store did not answer: another server may take its place.
func (i *identity) doubt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.doubts = time.Now()
}

// must returns the error of a request that is meant for a store with another id, or nil. If the id cannot be read, no
// request is passed on to the store.
func (i *identity) must(ctx context.Context, want string) error {
	a, err := i.since(ctx, time.Now().Add(-fresh))
	if err == nil && a.Identity != want {
		a, err = i.since(ctx, time.Now()) // it may have changed
	}
	switch {
	case errors.Is(err, driver.ErrUnsupported):
		return driver.Refused(fmt.Errorf("%w: the store here gives no id", api.ErrOtherStore))
	case err != nil:
		return driver.Unsent(fmt.Errorf("the store's id cannot be read, so the request was not passed on: %w", err))
	case a.Identity != want:
		return driver.Refused(api.ErrOtherStore)
	}
	return nil
}

// meant reports whether a request is meant for the store of this server, and otherwise refuses it.
func (s *Server) meant(w http.ResponseWriter, r *http.Request) bool {
	want := r.Header.Get(api.StoreID)
	if want == "" {
		return true
	}
	err := s.identity.must(r.Context(), want)
	if err != nil {
		e := errorOf(err)
		sendAway(w, e.Status(), e)
	}
	return err == nil
}

func (s *Server) identify(ctx context.Context, _ *api.Nothing) (any, error) {
	return s.identity.since(ctx, time.Now())
}
