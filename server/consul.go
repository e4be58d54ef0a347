package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server/internal/consul"
)

// maxConsul bounds the body of a request of Consul's API, in bytes. Records are smaller, and so are the values of semaphores.
const maxConsul = 64 << 10

// newConsul returns what answers Consul's clients.
func (s *Server) newConsul(keys [][]byte) (*consul.Front, error) {
	return consul.New(&consul.Options{
		Driver: looking{s.d, s}, Lister: s.lister, Watcher: s.watcher, Keys: keys, MaxTTL: s.limits.longest, Heed: s.identity.heed, Ending: s.ending,
		Begin: func(ctx context.Context, c *driver.Claim) (func(), error) { return s.begin(ctx, c, nil) },
		Room: func(ctx context.Context, name string) (func(), bool) {
			end, err := s.limits.wait(callerOf(ctx), name, soon)
			return end, err == nil
		},
		Turn: func(ctx context.Context) (func(), error) { return s.limits.turn(ctx, callerOf(ctx)) },
	})
}

// A looking is a driver that looks after each Enter whether the server may still serve, as [Server.put] does. It passes on the events of
// the locks that are taken and released.
type looking struct {
	driver.Driver
	s *Server
}

func (l looking) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := l.s.put(ctx, c)
	if err == nil && p.Holds && !consul.IsSession(c.Name) {
		callerOf(ctx).took(c, p.Ticket)
	}
	return p, err
}

func (l looking) Leave(ctx context.Context, r *driver.Release) error {
	err := l.Driver.Leave(ctx, r)
	if err == nil && !consul.IsSession(r.Claim.Name) {
		callerOf(ctx).did(Released, r.Claim, r.Claim.Ticket)
	}
	return err
}

// isConsul reports whether a request belongs to Consul's API.
func (s *Server) isConsul(r *http.Request) bool { return s.consul != nil && consul.Has(r.URL.Path) }

// consulToken accepts the header in which Consul's clients send their token.
func (s *Server) consulToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("X-Consul-Token"); token != "" && s.isConsul(r) && r.Header.Get("Authorization") == "" {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
		}
		next.ServeHTTP(w, r)
	})
}

// answerConsul answers a request of Consul's API.
func (s *Server) answerConsul(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if r.ContentLength != 0 { // without a body net/http already reads on, and would take the limit for the client's end
		_ = rc.SetReadDeadline(time.Now().Add(readWithin)) // as in read
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxConsul))
	unlimitWrite(rc)
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		w.Header().Set("Connection", "close")
		http.Error(w, "the request's body did not arrive, or is larger than "+strconv.Itoa(maxConsul)+" bytes", status)
		return
	}
	// Of the requests only this one is never about a lock that a client has or waits for: Consul's clients take a refusal for a loss.
	if r.URL.Path == "/v1/session/create" {
		if err := s.limits.request(callerOf(r.Context())); err != nil {
			retryAfter(w, afterOf(err))
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
	}
	a := s.consul.Answer(r.Context(), &consul.Request{
		Caller: consulCaller{callerOf(r.Context())}, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: body,
		Sender: sender(r),
	})
	defer a.Sent()
	if h := w.Header(); a.Index != 0 {
		h.Set("X-Consul-Index", strconv.FormatUint(a.Index, 10))
		h.Set("X-Consul-KnownLeader", "true")
		h.Set("X-Consul-LastContact", "0")
	}
	send(w, a.Status, a.Kind, a.Text)
}

// A consulCaller is a caller with the rights that Consul's API asks for.
type consulCaller struct{ *caller }

func (c consulCaller) Principal() string {
	if c.caller.Principal == nil {
		return ""
	}
	return c.Name
}

func (c consulCaller) MayClaim(name string, weight, capacity int64) error {
	return denied(c.mustClaim(name, weight, capacity))
}

func (c consulCaller) MayLeave(name string) error { return denied(c.mustHave(name)) }
func (c consulCaller) Locks() bool                { return c.maySome("", Lock, Share) }
func (c consulCaller) Reads(name string) bool     { return c.may(name, Read) }
func (c consulCaller) Knows(name string) bool     { return c.may(name, Lock, Share, Read) }
func (c consulCaller) KnowsSome(p string) bool    { return c.maySome(p, Lock, Share, Read) }

func (c consulCaller) Note(no *consul.Refusal) { c.refused(no.Name, &refusal{api.CodeForbidden, no}) }

func (c consulCaller) Again() (consul.Caller, error) {
	var now *caller
	err := c.still(func(again *caller) error {
		now = again
		return nil
	})
	if err != nil {
		return nil, denied(err)
	}
	return consulCaller{now}, nil
}

// denied gives an error of a caller its status.
func denied(err error) error {
	if err == nil {
		return nil
	}
	e := errorOf(err)
	if e.Unreachable {
		return err // Consul's clients ask again after a status of 500, and after no other
	}
	return &consul.Refusal{Status: e.Status(), Text: "Permission denied: " + e.Message, Noted: true} // by caller.must, or caller.still
}
