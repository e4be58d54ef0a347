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
)

// An Authenticator tells from whom a request is. It returns nil for a request without valid credentials, which is refused
// with status 401. An error says that it cannot tell now: the client may ask again, or ask another server. The client never
// sees the error. It is called often, also again while a request waits, and from many goroutines; it must not read the body.
type Authenticator func(*http.Request) (*Principal, error)

// A Principal is from whom a request is, and what it may do. Owners, clients and handles belong to their principal:
// those of another one, even if equal, are others.
type Principal struct {
	Name   string // from 1 to 64 letters, digits, dots, - and _
	Rights []Right
}

// A Right allows verbs on all names that begin with a prefix. An empty prefix stands for all names.
type Right struct {
	Verbs  []Verb
	Prefix string
}

// A Verb is what a right allows.
type Verb string

// The verbs.
const (
	Lock  Verb = "lock"  // take locks in any way, and all that Share allows
	Share Verb = "share" // share locks as readers, and take some of the permits of a name, but not all
	Read  Verb = "read"  // see who holds and who waits
	Break Verb = "break" // remove other clients' claims, or ask for them
)

// Verbs are all verbs.
var Verbs = []Verb{Lock, Share, Read, Break}

// maxPrincipal is the length of the longest name of a principal.
const maxPrincipal = 64

// CheckPrincipal returns why a text cannot be the name of a principal, or nil.
func CheckPrincipal(name string) error {
	if name == "" || len(name) > maxPrincipal || strings.ContainsFunc(name, func(r rune) bool { return r != '.' && notOfID(r) }) {
		return fmt.Errorf("the name of a principal has from 1 to %d letters, digits, dots, - and _", maxPrincipal)
	}
	return nil
}

// may reports whether the principal may do one of some things with a name.
func (p *Principal) may(name string, verbs ...Verb) bool {
	return slices.ContainsFunc(p.Rights, func(r Right) bool {
		return strings.HasPrefix(name, r.Prefix) && slices.ContainsFunc(verbs, func(v Verb) bool { return slices.Contains(r.Verbs, v) })
	})
}

// readsSome reports whether the principal may read a name that begins with a prefix.
func (p *Principal) readsSome(prefix string) bool {
	return p.may(prefix, Read) || slices.ContainsFunc(p.Rights, func(r Right) bool {
		return strings.HasPrefix(r.Prefix, prefix) && slices.Contains(r.Verbs, Read)
	})
}

// A caller is from whom a request is. The caller of a server without an Authenticator has no principal, and may do everything.
type caller struct {
	*Principal
	r            *http.Request
	authenticate Authenticator
}

type callerKey struct{}

// callerOf returns the caller of a request's context. Without one there is nothing that it may do.
func callerOf(ctx context.Context) *caller {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{Principal: &Principal{}}
}

var (
	errUnauthenticated = &refusal{api.CodeUnauthenticated, errors.New("the request has no valid credentials, which the lock service needs")}
	errNotNow          = driver.Unreachable(driver.Unsent(errors.New("the lock service cannot check credentials now")))
)

// identified returns the caller of a request.
func (s *Server) identified(r *http.Request) (*caller, error) {
	c := &caller{nil, r, s.authenticate}
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

// authenticated serves the requests whose caller is known.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.identified(r)
		if err != nil {
			if errors.Is(err, errUnauthenticated) {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			if f := failed(err); isLock(r) {
				sendAway(w, f.status, f)
			} else {
				e := errorOf(err)
				sendAway(w, e.Status(), e)
			}
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// still checks a request that lasts: the credentials may have been revoked, or have other rights now.
func (c *caller) still(must func(*caller) error) error {
	if c.authenticate == nil {
		return must(c)
	}
	p, err := c.authenticate(c.r)
	switch {
	case err != nil:
		return errNotNow
	case p == nil || p.Name != c.Name:
		return errUnauthenticated
	}
	return must(&caller{p, c.r, c.authenticate})
}

// may reports whether the caller may do one of some things with a name.
func (c *caller) may(name string, verbs ...Verb) bool {
	return c.Principal == nil || c.Principal.may(name, verbs...)
}

func (c *caller) readsSome(prefix string) bool {
	return c.Principal == nil || c.Principal.readsSome(prefix)
}

// must returns the error of a caller that may do none of some things with a name, or nil.
func (c *caller) must(name string, verbs ...Verb) error {
	if c.may(name, verbs...) {
		return nil
	}
	words := make([]string, len(verbs))
	for i, v := range verbs {
		words[i] = string(v)
	}
	return &refusal{api.CodeForbidden, fmt.Errorf("%s may not %s %.300q", c.Name, strings.Join(words, " or "), name)}
}

// mustClaim is must for a claim that enters or is renewed.
func (c *caller) mustClaim(name string, weight, capacity int64) error {
	if weight >= capacity {
		return c.must(name, Lock)
	}
	return c.must(name, Lock, Share)
}

// mustHave is must for a claim that awaits or leaves.
func (c *caller) mustHave(name string) error { return c.must(name, Lock, Share) }

// mustList is must for a list. A caller that may read only some of the names gets these.
func (c *caller) mustList(q *api.ListRequest) error {
	switch {
	case q.Name != "":
		return c.must(q.Name, Read)
	case c.readsSome(q.Prefix):
		return nil
	}
	return c.must(q.Prefix, Read)
}

// own returns what stands in the store for a text of a caller, so that no two callers have the same one. As text it is as
// long as an id that [rand.Text] draws, so every store takes it.
func (c *caller) own(what, text string) string {
	if c.Principal == nil {
		return text
	}
	sum := sha256.Sum256([]byte(what + "\x00" + c.Name + "\x00" + text))
	return base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// claim is what a driver gets of a caller's claim.
func (c *caller) claim(d *driver.Claim) *driver.Claim {
	d.ID, d.Client = c.own("id", d.ID), c.own("client", d.Client)
	if d.Owner != "" {
		d.Owner = c.own("owner", d.Owner)
	}
	return d
}

// place is what a caller gets of a place: who is in the way only if it may read that.
func (c *caller) place(name string, p driver.Place) driver.Place {
	if !c.may(name, Read) {
		p.Blocker = driver.ClaimInfo{}
	}
	return p
}
