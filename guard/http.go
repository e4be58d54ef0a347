package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Header is the header of a request that carries a token, in decimal.
const Header = "Stile-Token"

// HandlerOptions are the settings of [NewHandler]. Nil and the zero value mean the defaults.
type HandlerOptions struct {
	// Resource names the resource of a request. Its error is the answer, with status 400. Nil means the path of the
	// URL.
	Resource func(r *http.Request) (string, error)

	// Optional reports whether a request without a token may pass, unguarded. Nil means that none may: the answer is
	// 428. [Reads] lets GET and HEAD pass.
	Optional func(r *http.Request) bool

	// Failed gets the reason why a mark could not be raised, unless the client is to blame. The answer, 503, does not contain
	// the reason. Nil means that the reason is dropped.
	Failed func(r *http.Request, err error)
}

// Reads reports whether a request's method is GET or HEAD.
func Reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// A Handler raises the token of each request before another handler runs. If the token is refused, the Handler itself
// answers: 409 for a stale token, 400 for an invalid token or resource, 428 for a missing token, and 503 if the marks cannot
// be asked. The body is a problem document (RFC 9457) with the members resource, token and newer; tokens are texts, since
// numbers of JavaScript are not exact from 2^53 on.
//
// A Handler guards against late requests: a request with a stale token changes nothing, and neither does a later request
// with a lower token. It does not guard against a handler that is already at work when a higher token arrives. That handler
// goes on, and its late write is refused only if it checks in the same step: with [Table.Check] in the transaction of the
// write, with the values of [Incoming], on marks that [Table.Marks] made of the same table; or with [Memory.Do] on the same
// Memory.
type Handler struct {
	next  http.Handler
	marks Marks
	o     HandlerOptions
}

// NewHandler returns a handler that raises tokens in the marks and runs the next one under them.
func NewHandler(next http.Handler, marks Marks, o *HandlerOptions) *Handler {
	h := &Handler{next: next, marks: marks}
	if o != nil {
		h.o = *o
	}
	if h.o.Resource == nil {
		h.o.Resource = func(r *http.Request) (string, error) { return r.URL.Path, nil }
	}
	return h
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		if h.o.Optional != nil && h.o.Optional(r) {
			h.next.ServeHTTP(w, r)
			return
		}
		write(w, &problem{Type: missing, Title: "a token is needed", Status: http.StatusPreconditionRequired,
			Detail: "the request has no " + Header + " header: take the lock, and send the token of its lease"})
		return
	}
	token, err := parseHeader(values)
	var resource string
	if err == nil {
		if resource, err = h.o.Resource(r); err != nil {
			err = fmt.Errorf("guard: %w resource: %w", ErrInvalid, err)
		}
	}
	if err == nil {
		err = h.marks.Raise(r.Context(), resource, token)
	}
	var stale *StaleError
	switch {
	case err == nil:
		in := incoming{resource, token}
		h.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), incomingKey{}, in)))
	case errors.As(err, &stale):
		write(w, &problem{Type: staleType, Title: "the token is stale", Status: http.StatusConflict,
			Detail:   "a later holder of the lock was here, so nothing was done: stop, and take the lock anew",
			Resource: stale.Resource, Token: FormatToken(stale.Token), Newer: FormatToken(stale.Newer)})
	default:
		h.refuse(w, r, err)
	}
}

// refuse answers a request whose token could not be raised.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNoToken) {
		write(w, &problem{Type: malformed, Title: "the token or the resource is malformed", Status: http.StatusBadRequest, Detail: err.Error()})
		return
	}
	if h.o.Failed != nil {
		h.o.Failed(r, err)
	}
	write(w, &problem{Type: "about:blank", Title: "the guard cannot be asked", Status: http.StatusServiceUnavailable,
		Detail: "nothing was done; the same request may be sent again"})
}

func parseHeader(values []string) (int64, error) {
	if len(values) > 1 {
		return 0, fmt.Errorf("guard: %w: the request has %d %s headers", ErrInvalid, len(values), Header)
	}
	return ParseToken(values[0])
}

type incomingKey struct{}

type incoming struct {
	resource string
	token    int64
}

// Incoming returns the resource and the token that a [Handler] raised for the request of this context, or "" and 0 if the
// request had no token.
func Incoming(ctx context.Context) (resource string, token int64) {
	in, _ := ctx.Value(incomingKey{}).(incoming)
	return in.resource, in.token
}

// The types of the answers. They distinguish answers with the same status.
const (
	staleType = "urn:stile:guard:stale"
	malformed = "urn:stile:guard:malformed"
	missing   = "urn:stile:guard:missing"
)

// A problem is the body of an answer.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Resource string `json:"resource,omitempty"`
	Token    string `json:"token,omitempty"`
	Newer    string `json:"newer,omitempty"`
}

const problemType = "application/problem+json"

func write(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone if this fails
}
