package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// The paths by which a balancer or a person learns whether a replica works. They need no credentials, and say nothing else.
const (
	alivePath = "/healthz" // the server answers
	readyPath = "/readyz"  // its store answers too, and the server is not ending
)

const (
	readyWithin = 2 * time.Second // for the store to answer
	readyFor    = time.Second     // how long an answer of the store stands: strangers cannot load the store with questions
)

// A readiness is the last answer of the store to the question whether it works.
type readiness struct {
	mu   sync.Mutex
	at   time.Time // when it came; zero before the first
	fail error     // why the store does not work; nil if it does
	took func(call string, sent time.Time)
}

// of asks the store, unless it has just answered.
func (r *readiness) of(ctx context.Context, store driver.Lister) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= readyFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin) // another request may wait for the answer
		defer cancel()
		sent := time.Now()
		_, r.fail = store.List(ctx, &driver.Query{Name: soleName}) // any name would do
		r.took("ready", sent)
		r.at = time.Now()
	}
	return r.fail
}

// probed answers requests for the two paths, and passes on all others.
func (s *Server) probed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0
		if !asks || r.URL.Path != alivePath && r.URL.Path != readyPath {
			next.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == readyPath {
			if err := s.unready(r.Context()); err != nil {
				e := api.NewError(driver.Unsent(driver.Unreachable(err)))
				write(w, e.Status(), e)
				return
			}
		}
		send(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
}

// unready returns the reason why clients should ask another replica, or nil. It has none of the store's words: they may name
// addresses, and anybody may ask.
func (s *Server) unready(ctx context.Context) error {
	if s.ending.Err() != nil {
		return errors.New("the service is ending")
	}
	if s.sole != nil && s.sole.why(ctx) != nil {
		return errors.New("the service stands by: its store has one service at a time")
	}
	if s.lister != nil && s.ready.of(ctx, s.lister) != nil {
		return errors.New("the store does not answer, or refuses the service")
	}
	return nil
}
