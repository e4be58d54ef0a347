// Package server serves the locks of a store over HTTP, for clients that cannot reach the store or do not speak its
// protocol:
//
//	s, err := server.New(store, nil) // store comes from driver.Open
//	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
//	web.RegisterOnShutdown(s.EndWaits)
//
// A request makes one call of the store's driver, or a few; a batch makes those of its items side by side. The server keeps
// nothing of a claim beyond the calls under way. So several servers over one store are replicas: a client may send each
// request to any of them, and a server that dies takes no lease with it. Package store/remote is the client, for URLs of the
// scheme stile. Its requests name the id of the store that they are meant for, and a server over another store refuses them.
//
// Without an [Authenticator] a server answers only programs of its own machine that connect directly, to a loopback address:
// see [Server.ServeHTTP]. With one it answers principals with credentials, each within its rights. The program around the
// server then provides TLS. It also bounds the connections.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/work"
	"github.com/stilelock/stile/server/internal/consul"
	"github.com/stilelock/stile/server/internal/metrics"
)

// A Server is an [http.Handler] over the driver of a store.
type Server struct {
	d       driver.Driver
	lister  driver.Lister // nil if the driver is no Lister; likewise the next three
	watcher driver.Watcher
	breaker driver.Breaker
	adopter driver.Adopter
	alerter bool // the driver is an Alerter

	authenticate Authenticator // nil if all requests are from one caller
	hosts        []string
	consul       *consul.Front // nil without Options.Consul
	audit        audit
	metrics      *metrics.Service

	handler  http.Handler
	mux      *http.ServeMux
	replica  string          // this server's name; empty if the driver is no Adopter
	identity *identity       // of the store
	people   *people         // nil without a page
	limits   *limits         // of what clients may ask
	ready    readiness       // of the store
	calls    calls           // under way
	alerts   alerts          // for the clients that listen
	herds    *herds          // of waiting claims
	sole     *sole           // nil if several servers can serve the store
	life     *work.Life      // ends with EndWaits
	ending   context.Context // of the life
}

// Options are the options of a server.
type Options struct {
	// Authenticate returns the principal of a request, with its rights. Nil: requests need no credentials and may do
	// everything.
	Authenticate Authenticator

	// Hosts are the server's own host names, beside its addresses and localhost. With an Authenticator, the server refuses
	// requests without TLS for any other name: a page of another site may have made that name resolve to this machine. With
	// TLS, clients check names by the certificate.
	Hosts []string

	// Keys are the secrets that all replicas share, of at least 32 random bytes each. What a replica makes with the first, the
	// others read with any: the cookies of [Options.Page], and the sessions of [Options.Consul]. The server derives from each
	// secret a key for each purpose. Without secrets it draws one for its cookies: they are worth nothing at another replica, or
	// after a restart.
	Keys [][]byte

	// Consul adds a part of Consul's HTTP API for Consul's own clients: sessions, and the keys that sessions hold, below
	// /v1/session and /v1/kv. It needs Keys.
	Consul bool

	// Page adds the page for people, at / and below /page/. It shows all names with their holders and waiters to viewers with
	// the right to read them. With an Authenticator a viewer logs in with a token, which the Authenticator gets as a bearer
	// token. The browser keeps the token in a cookie that needs TLS, or a loopback address.
	Page bool

	// MaxTTL is the longest lease of a lock, from 10 s to 24 h. The lock of a client that died is closed for no longer, with
	// its lock-delay for no longer than twice that. 0 means what the store allows. If an existing claim has a longer lease, its
	// next renewal shortens it.
	MaxTTL time.Duration

	// MaxWaits is the most requests of this server that wait at a time: for locks, or for events. A principal, or a name, has
	// at most three quarters. 0 means 30,000. Further claims are refused with status 429 before they enter. A principal also has
	// at most as many requests of any kind under way. Further ones are refused with status 503, or 500 for Consul's clients.
	MaxWaits int

	// MaxRate is the most requests per second that this server passes on for new claims, and to look at claims. A principal has
	// at most three quarters. 0 means 10,000 with an Authenticator, and no bound without. Further ones are refused with status
	// 429.
	MaxRate int

	// MaxClaims is the most claims that a principal may have at this server, which hold or wait: those that entered or were
	// renewed here, until they leave here or would run out, with their lock-delays. A claim that leaves by another replica goes on
	// counting here. It needs an Authenticator. 0 means 30,000. Further claims are refused with status 429; Consul's clients get
	// 500, after which they ask again.
	MaxClaims int

	// Class maps the name of a lock to its class, such as "order" for all of "order/4711", which is a label of the metrics at
	// /metrics. It must return one of a few classes: from the hundredth on, further classes count as "other". Many goroutines
	// call it. Nil means one class for all, "".
	Class func(name string) string

	// Standby learns that the server stands by, since another one serves the store or the store does not answer, and with nil
	// that it serves: first when the store has answered, and then at each change. The server calls it only over a store that
	// one server at a time can serve; see [New]. Nil: nobody learns it.
	Standby func(because error)

	// Audit takes an event for each break, each refusal for lack of a right, and each lock that is taken or released. A request
	// waits for its events, so let only those of breaks wait for a disk. A break is refused if it returns an error. Many
	// goroutines call it. Nil: nobody takes events.
	Audit func(Event) error
}

// New returns a server over a store and registers for the driver's alerts. The caller closes the store after the last
// request. Nil options are the defaults.
//
// If the store's claims live in a client's session, as in ZooKeeper, the claims of all clients live in the session of the
// server, and end with it. Then one server can serve the store: New begins to ask for the lock stile-serve in the store, in
// the same session. While another server has the lock, this one answers 503, and says which server serves.
//
// New fails if an option is out of its range. It fails with [driver.ErrUnsupported] if claims need a client of their own: such
// a store frees all locks at once when its connection to the server ends, and the server's clients would still trust their
// leases.
func New(d driver.Driver, o *Options) (*Server, error) {
	t := d.Traits()
	if t.OwnClient {
		return nil, fmt.Errorf("%w: %s frees all locks of a client when its connection ends, so if the lock service ended, its "+
			"clients would work on without their locks", driver.ErrUnsupported, t.Store)
	}
	if o == nil {
		o = &Options{}
	}
	m := newMeasured(d, o.Class)
	s := &Server{d: m, metrics: m.m, authenticate: o.Authenticate, hosts: o.Hosts, identity: newIdentity(d), calls: calls{of: map[claimKey]*calling{}},
		alerts: alerts{of: map[string]map[*listener]bool{}}, audit: audit{take: o.Audit, of: map[string]*refusals{}}}
	s.audit.fails = func() { s.metrics.AuditFails.Add(1) }
	s.ready.took = m.took
	var err error
	if s.limits, err = newLimits(o); err != nil {
		return nil, err
	}
	s.limits.refused = m.refused
	if s.limits.claims > 0 {
		s.d = newCounted(m, s.limits)
	}
	s.lister, _ = d.(driver.Lister)
	s.watcher, _ = d.(driver.Watcher)
	s.breaker, _ = d.(driver.Breaker)
	if s.adopter, _ = d.(driver.Adopter); s.adopter != nil {
		s.replica = rand.Text()
	}
	if a, ok := d.(driver.Alerter); ok {
		s.alerter = true
		a.Alert(s.endangered)
	}
	s.herds, s.life = newHerds(s), work.Begin()
	s.ending = s.life.Context()
	if err := s.share(o); err != nil {
		return nil, err
	}
	s.mux = s.newMux()
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.turnAway(w, r, errors.New("the request comes from a page of another site"))
	}))
	answers := s.consulToken(s.authenticated(s.alone(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isLock(r):
			s.locks(w, r)
		case s.isConsul(r):
			s.answerConsul(w, r)
		case redirects(r.URL.Path):
			noSuch(w, r)
		default:
			bodiless(s.mux).ServeHTTP(w, r)
		}
	}))))
	if s.people != nil {
		answers = s.withPage(answers)
	}
	s.handler = s.admitted(origins.Handler(s.probed(answers)))
	if t.InSession {
		if s.sole, err = newSole(s, o.Standby); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// newMux returns what answers the requests of programs, except those whose paths have names of locks.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, c := range contractCalls {
		mux.HandleFunc(c.method+" "+c.path, func(w http.ResponseWriter, r *http.Request) { c.answer(s, w, r) })
	}
	mux.HandleFunc("GET "+openAPIPath, describeAPI)
	mux.HandleFunc("GET "+metricsPath, s.showMetrics)
	mux.HandleFunc("/", noSuch)
	return mux
}

// redirects reports whether the mux would redirect a path, perhaps to the lock of another name.
func redirects(of string) bool {
	clean := path.Clean(of)
	return clean != of && (clean == "/" || clean+"/" != of)
}

// bodiless refuses bodies, except of POST: net/http would first read a body, however slow.
func bodiless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost && r.ContentLength != 0 {
			refuse(w, http.StatusBadRequest, api.CodeInvalid, fmt.Errorf("%s %s has no body", r.Method, r.URL.Path))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noSuch answers a request for an unknown path or method.
func noSuch(w http.ResponseWriter, r *http.Request) {
	err := api.OtherVersion(r.URL.Path)
	if err == nil {
		err = fmt.Errorf("the lock service has no request %s %s", r.Method, r.URL.Path)
	}
	refuse(w, http.StatusNotFound, api.CodeInvalid, err)
}

// ServeHTTP answers a request.
//
// A server without an Authenticator answers only programs of its own machine: the connection has loopback addresses on both
// sides, the Host is localhost or a loopback address, and no proxy has forwarded the request. A server with an Authenticator
// answers if the request came by TLS or its Host is an address, localhost or one of [Options.Hosts], and the credentials are
// valid. A request from a page of another site is refused, except for GET: browsers keep that answer from the page. A refusal
// has status 401 or 403; 503 means that the credentials cannot be checked now.
//
// Each answer has an id of the request, which the server draws, in the header Stile-Request and in its errors. A client has 30 s
// to accept an answer, or a part of a long one. [http.Server.WriteTimeout] bounds only what net/http sends by itself, such as
// its answers to malformed requests: a request may wait for longer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := rand.Text() // a client cannot choose it, so no two requests have the same
	w.Header().Set(api.RequestID, id)
	w.Header().Set("X-Content-Type-Options", "nosniff") // a page of another site must not use JSON as a script
	rc := http.NewResponseController(w)
	if r.ContentLength == 0 { // otherwise when the body is there: net/http may send 100 Continue before
		unlimitWrite(rc)
	}
	defer limitWrite(rc) // net/http sends the rest of the answer after this, and then removes the limit
	a := &answering{ResponseWriter: w}
	defer s.answered(r, a)
	s.handler.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), requestKey{}, id)))
}

// EndWaits ends all waits, watches and alerts, now and from now on: their clients ask another server, or this one again. The
// server still answers every other request. Call it on shutdown, by [http.Server.RegisterOnShutdown]. A second call is
// harmless.
func (s *Server) EndWaits() {
	s.life.End()
	s.life.Wait()
	s.audit.end()
}

// endangered takes the driver's alerts.
func (s *Server) endangered(ids ...string) {
	s.alerts.endangered(ids...)
	if s.sole != nil {
		notify(s.sole.kick)
	}
}

// traits returns the promises to the server's clients: those of the store. All its clients share a session.
func (s *Server) traits() *api.StoreTraits {
	t := s.promises()
	if t.InSession {
		t.InSession, t.Session = false, 0
		t.Note("All locks live in the one session of the lock service, and end when that session ends: if the service is " +
			"restarted, each holder loses its lock, after it learned of the danger.")
	}
	return api.NewTraits(t)
}
