package stilehttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/stilelock/stile"
)

// Options are the settings of a handler. The zero value, and nil, mean the defaults.
type Options struct {
	// Wait is the longest time that a request waits for the lock. 0 means that it does not wait.
	Wait time.Duration

	// Status is the answer if the lock is held. 0 means 409 Conflict for [Handler], where 423 Locked is usual too, and 429 Too
	// Many Requests for [Limit].
	Status int

	// RetryAfter is the time that the answer asks the client to wait, in whole seconds. 0 means 1 s.
	RetryAfter time.Duration

	// Report gets the reason why a request was refused, or, after the request, the error of a lost lease or of a release of
	// unknown outcome. Nil means that nobody gets it.
	Report func(*http.Request, error)
}

// Handler returns a handler that runs the next one while it holds the request's lock. If the lock is held it answers 409, and
// if the store does not answer 503, both with Retry-After. If the lock's name is invalid it answers 400.
//
// The request's context ends when the lease is lost. A handler that goes on nevertheless must send the lease's token with its
// writes: another holder may be at work at the same time.
func Handler(lock func(*http.Request) *stile.Lock, next http.Handler, o *Options) http.Handler {
	return newHandler(lock, next, o, http.StatusConflict)
}

// Limit returns a handler that runs the next one while it holds a permit, so that all machines together serve no more
// requests than the permit's name has permits. If no permit is left it answers 429, and if the store does not answer 503,
// both with Retry-After.
func Limit(permit *stile.Lock, next http.Handler, o *Options) http.Handler {
	return newHandler(func(*http.Request) *stile.Lock { return permit }, next, o, http.StatusTooManyRequests)
}

type handler struct {
	lock func(*http.Request) *stile.Lock
	next http.Handler
	o    Options
}

func newHandler(lock func(*http.Request) *stile.Lock, next http.Handler, o *Options, status int) *handler {
	h := &handler{lock: lock, next: next}
	if o != nil {
		h.o = *o
	}
	if h.o.Status == 0 {
		h.o.Status = status
	}
	if h.o.RetryAfter <= 0 {
		h.o.RetryAfter = time.Second
	}
	if h.o.Report == nil {
		h.o.Report = func(*http.Request, error) {}
	}
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lease, err := h.lock(r).LockWithin(r.Context(), h.o.Wait)
	if err != nil {
		h.o.Report(r, err)
		if r.Context().Err() == nil { // else nobody reads the answer
			h.refuse(w, err)
		}
		return
	}
	defer func() {
		if err := lease.Unlock(); err != nil {
			h.o.Report(r, err)
		}
	}()
	ctx, cancel := within(r.Context(), lease)
	defer cancel()
	h.next.ServeHTTP(w, r.WithContext(ctx))
}

// refuse answers a request that has no lock. What the store said is not for clients.
func (h *handler) refuse(w http.ResponseWriter, err error) {
	status, text, after := http.StatusServiceUnavailable, "not now", 5*time.Second
	switch {
	case errors.Is(err, stile.ErrHeld):
		status, after = h.o.Status, h.o.RetryAfter
		if text = "somebody else is at work on this"; status == http.StatusTooManyRequests {
			text = "too many requests at a time"
		}
	case errors.Is(err, stile.ErrInvalid):
		status, text, after = http.StatusBadRequest, "this cannot be the name of a lock", 0
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	http.Error(w, text, status)
}
