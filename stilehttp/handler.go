package stilehttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
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
	// unknown outcome. Nil means that the error is dropped.
	Report func(*http.Request, error)
}

// Handler returns a handler that runs the next one while it holds the request's lock. If the lock is held it answers 409,
// and if the store does not answer 503, both with Retry-After. It answers 503 too if the request's context ends before it
// holds the lock. If the lock's name is invalid it answers 400, and if the lock's options are invalid, or there is no lock,
// 500.
//
// The request's context ends when the lease is lost. A handler that goes on must send the lease's token with its writes,
// since another holder may work at the same time.
func Handler(lock func(*http.Request) *stile.Lock, next http.Handler, o *Options) http.Handler {
	return newHandler(lock, next, o, http.StatusConflict)
}

// Limit returns a handler that runs the next one while it holds a permit, so that all machines together serve no more
// requests than the permit's name has permits. If no permit is left it answers 429, otherwise like [Handler]. An invalid
// permit is never the client's fault: the answer is 500.
func Limit(permit *stile.Lock, next http.Handler, o *Options) http.Handler {
	h := newHandler(func(*http.Request) *stile.Lock { return permit }, next, o, http.StatusTooManyRequests)
	h.fixed = true
	return h
}

type handler struct {
	lock  func(*http.Request) *stile.Lock
	fixed bool // the program names the lock, not the request
	next  http.Handler
	o     Options
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
	lock := h.lock(r)
	lease, err := lock.LockWithin(r.Context(), h.o.Wait)
	if err != nil {
		h.o.Report(r, err)
		// Also after the end of the request's context, which a stopping server or a deadline may end while the client
		// listens: a handler that writes nothing answers 200.
		h.refuse(w, lock, err)
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

// refuse answers a request that has no lock. The answer does not contain the store's error.
func (h *handler) refuse(w http.ResponseWriter, lock *stile.Lock, err error) {
	status, text, after := http.StatusServiceUnavailable, "not now", 5*time.Second
	switch {
	case errors.Is(err, stile.ErrHeld):
		status, after = h.o.Status, h.o.RetryAfter
		if text = "somebody else is at work on this"; status == http.StatusTooManyRequests {
			text = "too many requests at a time"
		}
	case errors.Is(err, stile.ErrInvalid) && !h.fixed && misnamed(lock, err):
		status, text, after = http.StatusBadRequest, "this cannot be the name of a lock", 0
	case errors.Is(err, stile.ErrInvalid):
		status, text, after = http.StatusInternalServerError, "the lock of this is not set up rightly", 0
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	http.Error(w, text, status)
}

// misnamed reports whether an invalid lock has a wrong name, and not wrong options. A lock that no client made has no name
// either.
func misnamed(lock *stile.Lock, err error) bool {
	e, ok := errors.AsType[*stile.Error](err)
	return ok && driver.CheckName(e.Name) != nil && (e.Name != "" || lock.Options().TTL != 0)
}
