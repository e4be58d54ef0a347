package server

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server/internal/consul"
)

// An Authenticator returns the principal of a request. Nil means no valid credentials: the server refuses the request with
// status 401. An error means that the credentials cannot be checked now: the server answers 503, or 500 to Consul's clients,
// without the error's text, and the client may ask again or ask another server. Many goroutines call the function, often, and
// again while a request waits; it must not read the body.
type Authenticator func(*http.Request) (*Principal, error)

// A Principal is the authenticated sender of requests, with its rights. Owners, clients and handles belong to their
// principal: equal texts of two principals are different.
type Principal struct {
	Name   string // from 1 to 64 letters, digits, dots, - and _
	Rights []Right
}

// A Right allows verbs on all names that begin with a prefix. An empty prefix stands for all names.
type Right struct {
	Verbs  []Verb
	Prefix string
}

// A Verb is a kind of action that a right allows.
type Verb string

// The verbs.
const (
	Lock  Verb = "lock"  // take locks in any way; includes Share
	Share Verb = "share" // take locks as a reader, or some of a name's permits but not all
	Read  Verb = "read"  // see holders and waiters
	Break Verb = "break" // remove other clients' claims, or ask for their removal
)

// Verbs has all verbs.
var Verbs = []Verb{Lock, Share, Read, Break}

// CheckPrincipal returns an error if a text cannot be the name of a principal.
func CheckPrincipal(name string) error {
	if !record.IsPrincipal(name) {
		return fmt.Errorf("the name of a principal has from 1 to %d letters, digits, dots, - and _", record.MaxPrincipal)
	}
	return nil
}

// may reports whether the principal has one of some verbs on a name.
func (p *Principal) may(name string, verbs ...Verb) bool {
	return slices.ContainsFunc(p.Rights, func(r Right) bool { return strings.HasPrefix(name, r.Prefix) && r.allows(verbs) })
}

// allows reports whether the right allows one of some verbs.
func (r Right) allows(verbs []Verb) bool {
	return slices.ContainsFunc(verbs, func(v Verb) bool { return slices.Contains(r.Verbs, v) })
}

// maySome reports whether the principal has one of some verbs on some name with a prefix.
func (p *Principal) maySome(prefix string, verbs ...Verb) bool {
	return p.may(prefix, verbs...) || slices.ContainsFunc(p.Rights, func(r Right) bool {
		return strings.HasPrefix(r.Prefix, prefix) && r.allows(verbs)
	})
}

// A caller is the sender of a request. Without an Authenticator it has no principal and may do everything.
type caller struct {
	*Principal
	s *Server
	r *http.Request
}

type callerKey struct{}

// callerOf returns the caller of a request's context. Without one it returns a caller without rights.
func callerOf(ctx context.Context) *caller {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{Principal: &Principal{}}
}

var (
	errUnauthenticated = &refusal{api.CodeUnauthenticated,
		errors.New("the request has no valid credentials, which the lock service needs")}
	errNotNow = driver.Unreachable(driver.Unsent(errors.New("the lock service cannot check credentials now")))
)

// identified authenticates a request.
func (s *Server) identified(r *http.Request) (*caller, error) {
	c := &caller{nil, s, r}
	if s.authenticate == nil {
		return c, nil
	}
	p, err := s.authenticate(r)
	switch {
	case err != nil || p != nil && CheckPrincipal(p.Name) != nil:
		return nil, errNotNow
	case p == nil:
		return nil, errUnauthenticated
	}
	c.Principal = p
	return c, nil
}

// authenticated passes on requests with a known caller, and refuses the others.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.identified(r)
		if err != nil {
			s.unknown(r, err)
			if errors.Is(err, errUnauthenticated) {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			turnAway(w, r, err)
			return
		}
		end, err := s.limits.serves(c)
		if err != nil {
			turnAway(w, r, err)
			return
		}
		defer end()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// turnAway refuses a request whose body has not been read, in the form of its API.
func turnAway(w http.ResponseWriter, r *http.Request, err error) {
	retryAfter(w, afterOf(err))
	if isLock(r) {
		f := failed(err)
		sendAway(w, f.status, f)
		return
	}
	e := errorOf(err)
	status := e.Status()
	if e.Unreachable && consul.Has(r.URL.Path) {
		status = http.StatusInternalServerError // as in denied
	}
	sendAway(w, status, e)
}

// still checks a long request again: the credentials may have been revoked, or their rights may have changed.
func (c *caller) still(must func(*caller) error) error {
	if c.s.authenticate == nil {
		return must(c)
	}
	p, err := c.s.authenticate(c.r)
	switch {
	case err != nil:
		return errNotNow
	case p == nil || p.Name != c.Name:
		c.refused("", errUnauthenticated)
		return errUnauthenticated
	}
	return must(&caller{p, c.s, c.r})
}

// may reports whether the caller has one of some verbs on a name.
func (c *caller) may(name string, verbs ...Verb) bool {
	return c.Principal == nil || c.Principal.may(name, verbs...)
}

func (c *caller) maySome(prefix string, verbs ...Verb) bool {
	return c.Principal == nil || c.Principal.maySome(prefix, verbs...)
}

// must returns an error if the caller has none of some verbs on a name.
func (c *caller) must(name string, verbs ...Verb) error {
	if c.may(name, verbs...) {
		return nil
	}
	words := make([]string, len(verbs))
	for i, v := range verbs {
		words[i] = string(v)
	}
	err := &refusal{api.CodeForbidden, fmt.Errorf("%s may not %s %.300q", c.Name, strings.Join(words, " or "), name)}
	c.refused(name, err)
	return err
}

// mustClaim is must for a claim that enters or is renewed: all permits need Lock.
func (c *caller) mustClaim(name string, weight, capacity int64) error {
	if err := c.mustSpare(name); err != nil {
		return err
	}
	if weight >= capacity {
		return c.must(name, Lock)
	}
	return c.must(name, Lock, Share)
}

// mustHave is must for a claim that awaits or leaves.
func (c *caller) mustHave(name string) error { return c.must(name, Lock, Share) }

// mustList is must for a list. A caller that may read only some of the names gets only these.
func (c *caller) mustList(q *api.ListRequest) error {
	switch {
	case q.Name != "":
		return c.must(q.Name, Read)
	case c.maySome(q.Prefix, Read):
		return nil
	}
	return c.must(q.Prefix, Read)
}

// own returns the store's text for a caller's text. Different callers get different texts.
func (c *caller) own(what, text string) string {
	if c.Principal == nil {
		return text
	}
	return digest(what, c.Name, text)
}

// id returns the store's id for a caller's id of a claim to a name. A driver knows its claims by their ids alone, so an id that
// a client used for two names by mistake would find the claim to the other one: the client would hold both, and whoever holds
// the second would too.
func (c *caller) id(name, id string) string {
	by := ""
	if c.Principal != nil {
		by = c.Name
	}
	return digest("id", by, name, id)
}

// digest returns a text that others than its parts do not have. It is as long as an id of [rand.Text], so every store takes it.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return base32.StdEncoding.EncodeToString(h.Sum(nil))[:26]
}

// claim returns the driver's form of a caller's claim.
func (c *caller) claim(d *driver.Claim) (_ *driver.Claim, err error) {
	if d.Record, err = c.record(d.Record); err != nil {
		return nil, err
	}
	if d.Amend != nil && d.Amend.Record != "" { // "" leaves the record as it was
		if d.Amend.Record, err = c.record(d.Amend.Record); err != nil {
			return nil, err
		}
	}
	d.ID, d.Client = c.id(d.Name, d.ID), c.own("client", d.Client)
	if d.Owner != "" {
		d.Owner = c.own("owner", d.Owner)
	}
	return d, nil
}

// place returns a place as the caller may see it: without the blocker, unless it may read the name.
func (c *caller) place(name string, p driver.Place) driver.Place {
	p.Blocker = c.info(p.Blocker)
	if !c.may(name, Read) {
		p.Blocker = driver.ClaimInfo{}
	}
	return p
}
