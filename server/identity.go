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

// again is how long the server does not read the id again for requests that name another: anybody may send many of them.
const again = 100 * time.Millisecond

// beside is how long a request waits for another one's read of the id: that one may hang on a connection of its own.
const beside = 250 * time.Millisecond

// An identity is the store's id. The store keeps it, and the server reads it there: a store that was wiped has another id.
type identity struct {
	store driver.Identifier // nil if the store keeps no id
	turn  chan struct{}     // has an element while a request reads the id that others wait for

	mu     sync.Mutex // guards the fields below
	id     string     // "" before the first read
	read   time.Time  // before the read that returned id
	doubts time.Time  // when the store last did not answer
}

func newIdentity(d driver.Driver) *identity {
	i := &identity{turn: make(chan struct{}, 1)}
	i.store, _ = d.(driver.Identifier)
	return i
}

// since returns the id that the store had at some moment after a time.
func (i *identity) since(ctx context.Context, after time.Time) (string, error) {
	if i.store == nil {
		return "", driver.ErrUnsupported
	}
	if id := i.known(after); id != "" {
		return id, nil
	}
	patience := time.NewTimer(beside)
	defer patience.Stop()
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-patience.C:
	case <-ctx.Done():
		return "", driver.Ended(ctx, false)
	}
	if id := i.known(after); id != "" { // another request has read it meanwhile
		return id, nil
	}
	begun := time.Now()
	id, err := i.store.Identity(ctx)
	if err != nil {
		return "", err
	}
	return i.note(id, begun), nil
}

// known returns the id if it was read after a time, and the store has answered since; otherwise "".
func (i *identity) known(after time.Time) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.read.Before(after) || !i.read.After(i.doubts) {
		return ""
	}
	return i.id
}

// note takes an id that was read, unless a later read was quicker, and returns the id.
func (i *identity) note(id string, begun time.Time) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !begun.Before(i.read) {
		i.id, i.read = id, begun
	}
	return i.id
}

// heed takes an error of the store. If the store did not answer, another server may take its place. A bound of this server says
// nothing of the store.
func (i *identity) heed(err error) {
	if driver.IsUnreachable(err) && afterOf(err) == 0 {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.doubts = time.Now()
	}
}

// last reports whether an id is the one that was read last, however long ago.
func (i *identity) last(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id == id
}

// must returns the error of a request that is meant for a store with another id, or nil. If the id cannot be read, the
// request is not passed on to the store: see also extend.
func (i *identity) must(ctx context.Context, want string) error {
	id, err := i.since(ctx, time.Now().Add(-fresh))
	if err == nil && id != want {
		id, err = i.since(ctx, time.Now().Add(-again)) // it may have changed
	}
	switch {
	case errors.Is(err, driver.ErrUnsupported):
		return driver.Refused(fmt.Errorf("%w: the store here gives no id", api.ErrOtherStore))
	case err != nil:
		return driver.Unsent(fmt.Errorf("the store's id cannot be read, so the request was not passed on: %w", err))
	case id != want:
		return driver.Refused(api.ErrOtherStore)
	}
	return nil
}

// same returns the error of a request that is meant for another store than that of this server, or nil.
func (s *Server) same(ctx context.Context) error {
	if want := wanted(ctx); want != "" {
		return s.identity.must(ctx, want)
	}
	return nil
}

// wanted returns the id of the store that a request is meant for; "" for any.
func wanted(ctx context.Context) string {
	if c := callerOf(ctx); c.r != nil {
		return c.r.Header.Get(api.StoreID)
	}
	return ""
}

// meant reports whether a request is meant for the store of this server, and otherwise refuses it. The request's body has been
// read: before that, the context of a request does not end with its client.
func (s *Server) meant(w http.ResponseWriter, r *http.Request) bool {
	err := s.same(r.Context())
	if err != nil {
		s.fail(w, err)
	}
	return err == nil
}

// extend renews claims. Only the store that has a claim can renew it. So a renewal need not wait for the id if this server has
// read the right one before: the holder would lose its lease while the id cannot be read. But no other store may say that a
// claim is gone.
func (s *Server) extend(ctx context.Context, claims []*driver.Claim) ([]driver.Renewal, error) {
	if !s.identity.last(wanted(ctx)) {
		if err := s.same(ctx); err != nil {
			return nil, err
		}
	}
	renewals := s.d.Renew(ctx, claims)
	for i := range renewals {
		s.identity.heed(renewals[i].Err)
	}
	verdict := func(r driver.Renewal) bool {
		return errors.Is(r.Err, driver.ErrGone) || driver.OutcomeOf(r.Err) == driver.OutcomeRefused
	}
	if !slices.ContainsFunc(renewals, verdict) {
		return renewals, nil
	}
	bounded, cancel := context.WithTimeout(ctx, 2*beside) // the other claims may have been renewed
	defer cancel()
	err := s.same(bounded)
	if errors.Is(err, api.ErrOtherStore) {
		return nil, err
	}
	for i := range renewals {
		if err != nil && verdict(renewals[i]) {
			renewals[i].Err = err
		}
	}
	return renewals, nil
}

func (s *Server) identify(ctx context.Context, _ *api.Nothing) (*api.IdentityAnswer, error) {
	id, err := s.identity.since(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	return &api.IdentityAnswer{Identity: id}, nil
}
