// Package consul answers requests of Consul's HTTP API, so that Consul's own clients take the locks of a store. Of the API it
// has sessions, the keys that sessions hold, and the agent's name.
//
// A session is a claim on a name of its own, and each key that the session holds is a claim on the name of the lock. Their
// records have all that is known of them, so any replica answers any request, and a replica that dies takes nothing with it.
// The record of a session lists its keys: a renewal of the session renews all of these claims.
//
// Consul shows the id of a session to every reader. So the ids of the claims, which are the right to release them, are
// derived from it by a secret key that only the replicas have.
package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
)

// Options are what a Front needs.
type Options struct {
	Driver  driver.Driver
	Lister  driver.Lister  // nil if the store cannot list its claims, so a front is refused
	Watcher driver.Watcher // nil if the driver cannot watch

	// Keys are secrets that all replicas have. The first derives the ids of new claims; the others find older claims.
	Keys [][]byte

	// MaxTTL is the longest lease; 0 means the store's.
	MaxTTL time.Duration

	// Begin waits for the earlier calls about a claim: see the server.
	Begin func(context.Context, *driver.Claim) (end func(), err error)

	// Room counts a request that waits for a name until end is called. Without room for it, its wait is cut short.
	Room func(ctx context.Context, name string) (end func(), ok bool)

	// Turn waits until the store may list the names with a prefix, and counts the list until end is called.
	Turn func(context.Context) (end func(), err error)

	// Heed takes each error of the store.
	Heed func(error)

	// Ending ends all waits.
	Ending context.Context
}

// A Caller is the sender of a request, with its rights.
type Caller interface {
	Principal() string                                  // "" without credentials
	MayClaim(name string, weight, capacity int64) error // enter or renew such a claim
	Locks() bool                                        // enter claims on some names
	MayLeave(name string) error                         // take a claim out
	Reads(name string) bool                             // see who holds
	Knows(name string) bool                             // see whether somebody holds
	KnowsSome(prefix string) bool                       // the same for some name with a prefix
	Again() (Caller, error)                             // check the credentials again
	Note(*Refusal)                                      // note that it lacks a right
}

// A Request is one request of a client.
type Request struct {
	Caller
	Method, Path string
	Query        url.Values
	Body         []byte
	Sender       record.Holder // program and host of the client, as far as they are known
}

// An Answer is an answer to a client.
type Answer struct {
	Status int
	Index  uint64 // of the answer, for the client's next query; 0 if it has none
	Kind   string // the media type
	Text   []byte
	end    func() // of its turn to list; nil without one
}

// Sent ends what an answer takes of the service. Call it when the answer has been sent, or will not be.
func (a *Answer) Sent() {
	if a.end != nil {
		a.end()
	}
}

// A Refusal is an error with the status of its answer.
type Refusal struct {
	Status int
	Text   string
	Name   string // of the lock, if the caller lacks a right on it
	Noted  bool   // the caller has noted it already
}

func (r *Refusal) Error() string { return r.Text }

func refuse(status int, format string, args ...any) error {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// forbid refuses what a caller may not do with the lock of a name; "" for no lock.
func forbid(name, format string, args ...any) error {
	return &Refusal{Status: http.StatusForbidden, Text: fmt.Sprintf(format, args...), Name: name}
}

// A Front answers requests with the claims of a store.
type Front struct {
	d       driver.Driver
	lister  driver.Lister
	watcher driver.Watcher // nil if the driver cannot watch
	keys    []*key
	longest time.Duration // lease
	begin   func(context.Context, *driver.Claim) (end func(), err error)
	room    func(ctx context.Context, name string) (end func(), ok bool)
	turn    func(context.Context) (end func(), err error)
	heed    func(error)
	ending  context.Context
}

// New returns a front. The error is [driver.ErrUnsupported] if the store lacks a power that sessions need.
func New(o *Options) (*Front, error) {
	f := &Front{
		d: o.Driver, lister: o.Lister, watcher: o.Watcher, longest: cmp.Or(o.MaxTTL, driver.MaxTTL), begin: o.Begin, room: o.Room,
		turn: o.Turn, heed: o.Heed, ending: o.Ending,
	}
	if t := o.Driver.Traits(); f.lister == nil || !t.Amends || !t.Delay || t.ShortRecord {
		return nil, fmt.Errorf("%w: Consul's sessions need a store that lists its claims, changes records, and keeps a lock-delay",
			driver.ErrUnsupported)
	}
	for _, secret := range o.Keys {
		f.keys = append(f.keys, newKey(secret))
	}
	if len(f.keys) == 0 {
		return nil, errors.New("no key is there for Consul's sessions: all replicas share one")
	}
	return f, nil
}

// The paths of the API.
const (
	selfPath    = "/v1/agent/self"
	sessionPath = "/v1/session/"
	keyPath     = "/v1/kv/"
)

// Has reports whether a path belongs to the API.
func Has(path string) bool { return Part(path) != "" }

// Part returns the beginning of a path that names a part of the API, without a key or a session; "" for another path.
func Part(path string) string {
	switch {
	case path == selfPath:
		return selfPath
	case strings.HasPrefix(path, sessionPath):
		return sessionPath
	case strings.HasPrefix(path, keyPath):
		return keyPath
	}
	return ""
}

// Answer answers a request.
func (f *Front) Answer(ctx context.Context, q *Request) *Answer {
	a, err := f.route(ctx, q)
	if err == nil {
		return a
	}
	f.heed(err)
	// Consul's clients ask again after a status of 500, and after no other.
	status := http.StatusInternalServerError
	if no, ok := errors.AsType[*Refusal](err); ok {
		if status = no.Status; status == http.StatusForbidden && !no.Noted {
			q.Note(no)
		}
	}
	return &Answer{Status: status, Kind: "text/plain; charset=utf-8", Text: []byte(err.Error())}
}

func (f *Front) route(ctx context.Context, q *Request) (*Answer, error) {
	if q.Path == selfPath {
		return q.self()
	}
	if id, ok := strings.CutPrefix(q.Path, keyPath); ok {
		return f.key(ctx, q, id)
	}
	verb, id, _ := strings.Cut(strings.TrimPrefix(q.Path, sessionPath), "/")
	return f.session(ctx, q, verb, id)
}

// common are parameters that change no answer: every answer is consistent, and there is one datacenter.
var common = []string{"consistent", "stale", "pretty"}

// only refuses another method, and a parameter that is not known.
func (q *Request) only(method string, known ...string) error {
	if q.Method != method {
		return refuse(http.StatusMethodNotAllowed, "%s takes %s, and not %s", q.Path, method, q.Method)
	}
	for name := range q.Query {
		if !slices.Contains(known, name) && !slices.Contains(common, name) {
			return refuse(http.StatusBadRequest, "the lock service does not have the parameter %.40q of Consul's %s %.100s", name, method, q.Path)
		}
	}
	return nil
}

// node is the name of the node of every replica, and of the datacenter.
const node = "stile"

func (q *Request) self() (*Answer, error) {
	if err := q.only(http.MethodGet); err != nil {
		return nil, err
	}
	return answer(0, map[string]any{
		"Config": map[string]any{"Datacenter": node, "NodeName": node, "Server": true, "Version": node},
		"Member": map[string]any{"Name": node},
	})
}

// answer returns an answer in JSON.
func answer(index uint64, of any) (*Answer, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return &Answer{Status: http.StatusOK, Index: index, Kind: "application/json", Text: text}, nil
}

// queue returns the queue of a name. A name without claims has an empty one.
func (f *Front) queue(ctx context.Context, name string) (*driver.Listing, error) {
	all, err := f.lister.List(ctx, &driver.Query{Name: name})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return &driver.Listing{Name: name}, nil
}

// list answers with something of the queues whose names begin with a prefix. What a list takes of the memory it takes until its answer
// has been sent.
func (f *Front) list(
	ctx context.Context, prefix string, answerWith func([]driver.Listing) (*Answer, error),
) (a *Answer, err error) {
	end, err := f.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if a == nil { // also after a panic
			end()
		}
	}()
	queues, err := f.lister.List(ctx, &driver.Query{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	if a, err = answerWith(queues); err != nil {
		return nil, err
	}
	a.end = end
	return a, nil
}

// live reports whether a claim holds and may be renewed: it has not left, and its lease has not run out.
func live(c *driver.ClaimInfo) bool { return c.Holds && !c.Left && c.Remaining >= 0 }

// lease begins a claim of a session, with the lease of all of them. Consul ends a session after twice its TTL, and its clients rely on this:
// some renew only when the TTL is nearly over.
func (f *Front) lease(s *session) driver.Claim {
	t := f.d.Traits()
	ttl := min(2*s.ttl(), cmp.Or(t.MaxTTL, driver.MaxTTL), f.longest)
	ttl = max(ttl, t.MinTTL)
	return driver.Claim{Client: "stile-consul", Weight: driver.All, Capacity: driver.All, TTL: ttl, Wait: ttl}
}
