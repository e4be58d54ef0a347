package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server/internal/consul"
)

// An Event is an action of a client, for an audit. It holds no handle, no id of a claim and no credential. A refused request
// may have come from anybody, and its fields say what it claimed.
type Event struct {
	Time      time.Time `json:"time"`
	Request   string    `json:"request"` // the id that the server drew for the request; its answer has it too
	Action    Action    `json:"action"`
	Outcome   string    `json:"outcome,omitempty"`   // of a break: begins or done; or that of its error, see [driver.Outcome]
	Code      string    `json:"code,omitempty"`      // of an error
	Message   string    `json:"message,omitempty"`   // of a refusal
	Principal string    `json:"principal,omitempty"` // "" if unknown
	From      string    `json:"from,omitempty"`      // the address of the connection's other end
	Forwarded string    `json:"forwarded,omitempty"` // X-Forwarded-For, for which anybody may invent a value
	Call      string    `json:"call,omitempty"`      // the method and the path, without a lock's name
	Name      string    `json:"name,omitempty"`      // of the lock
	Ticket    string    `json:"ticket,omitempty"`    // of the claim, a number, as stile show prints it
	By        *Person   `json:"by,omitempty"`        // as the client describes itself, with its reason
	Of        *Person   `json:"of,omitempty"`        // whose claim was broken
	More      int       `json:"more,omitempty"`      // refusals of the last minute that have no event of their own
}

// An Action is the kind of an [Event].
type Action string

// The actions. A break has two events: one before the store is asked, and one with the outcome. Without the first, the
// server breaks nothing.
const (
	Broke    Action = "break"   // a claim is removed by hand
	Asked    Action = "ask"     // a holder is asked for its lock; likewise two events
	Refused  Action = "refuse"  // a request without valid credentials, without the right, or from a foreign page or machine
	Took     Action = "take"    // a client learns that it holds a lock; it may learn so twice
	Released Action = "release" // a client gives up its claim, or a client of Consul another one's; the end of a lease has no event
)

// A Person describes who holds or breaks a lock. All fields but Principal are as the client gave them.
type Person struct {
	Principal string `json:"principal,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Program   string `json:"program,omitempty"`
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// person describes the client of a record, with a principal. It returns nil if there is nothing to say.
func person(text, principal string) *Person {
	h := record.Read(text)
	p := Person{Principal: principal, Owner: h.Owner, Program: h.Program, Host: h.Host, PID: h.PID, Reason: h.Reason}
	if p == (Person{}) {
		return nil
	}
	return &p
}

// errNoAudit is the error of a break that the audit does not take. Another replica may take it.
var errNoAudit = driver.Unreachable(driver.Unsent(errors.New("the lock service cannot write its audit, so nothing was broken")))

// outcomes of a break, beside those of its error.
const (
	begins = "begins"
	done   = "done"
)

// An audit passes events on, with a bound on refusals: a stranger must not fill a disk, or push other events out of a file.
// In a minute, each principal may have eachMinute events about refusals, and so may all strangers together. At the minute's
// end one more event counts the others.
type audit struct {
	take  func(Event) error // nil: nobody takes events
	fails func()            // is called if it returns an error

	mu    sync.Mutex // guards the fields below
	of    map[string]*refusals
	ended bool // with the server's waits: the bound no longer holds
}

// refusals are a principal's refusals of a minute.
type refusals struct {
	n    int
	over *time.Timer
}

const eachMinute = 20

// event passes an event on.
func (a *audit) event(e *Event) error {
	if a.take == nil {
		return nil
	}
	e.Time = time.Now().UTC()
	err := a.take(*e)
	if err != nil {
		a.fails()
	}
	return err
}

// refused passes on the event of a refusal, unless there were too many. The refusal stands even if nobody takes the event.
func (a *audit) refused(e *Event) {
	if a.take == nil || !a.fits(e.Principal) {
		return
	}
	e.Action = Refused
	_ = a.event(e) // whoever takes events knows of its own fault
}

// fits counts a refusal and reports whether it has an event of its own.
func (a *audit) fits(principal string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return true
	}
	r := a.of[principal]
	if r == nil {
		r = &refusals{}
		r.over = time.AfterFunc(time.Minute, func() { a.minute(principal) })
		a.of[principal] = r
	}
	r.n++
	return r.n <= eachMinute
}

// minute ends the minute of a principal, with an event about the refusals that have none.
func (a *audit) minute(principal string) {
	a.mu.Lock()
	r := a.of[principal]
	delete(a.of, principal)
	a.mu.Unlock()
	if r != nil {
		r.over.Stop()
		if r.n > eachMinute {
			_ = a.event(&Event{Action: Refused, Principal: principal, More: r.n - eachMinute}) // see refused
		}
	}
}

// end ends all minutes: the server is about to end.
func (a *audit) end() {
	a.mu.Lock()
	a.ended = true
	var all []string
	for principal := range a.of {
		all = append(all, principal)
	}
	a.mu.Unlock()
	slices.Sort(all)
	for _, principal := range all {
		a.minute(principal)
	}
}

// maxForwarded is the most bytes of X-Forwarded-For in an event.
const maxForwarded = 200

// event returns an event of a request.
func (c *caller) event(what Action, name string) *Event {
	e := &Event{Action: what, Name: name}
	if c.Principal != nil {
		e.Principal = c.Name
	}
	if c.r != nil {
		e.Request, _ = c.r.Context().Value(requestKey{}).(string)
		e.Call = c.s.callOf(c.r)
		e.From = c.r.RemoteAddr
		if host, _, err := net.SplitHostPort(e.From); err == nil {
			e.From = host
		}
		e.Forwarded = c.r.Header.Get("X-Forwarded-For")
		e.Forwarded = e.Forwarded[:min(len(e.Forwarded), maxForwarded)]
	}
	return e
}

// A requestKey is the key of the id of a request in its context.
type requestKey struct{}

// callOf returns the method and the path of a request, or "" if the server has no such request: its path could be anything,
// even a secret.
func (s *Server) callOf(r *http.Request) string {
	path, mux := "", s.mux
	switch {
	case isLock(r):
		path = locksPath
	case s.isConsul(r):
		path = consul.Part(r.URL.Path)
	case s.people != nil && strings.HasPrefix(r.URL.Path, pagePath):
		mux = s.people.mux
	}
	known := []string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut}
	if path != "" && slices.Contains(known, r.Method) {
		return r.Method + " " + path
	}
	if _, pattern := mux.Handler(r); path == "" && pattern != "/" {
		return pattern
	}
	return ""
}

// unknown passes on the event of a request without valid credentials.
func (s *Server) unknown(r *http.Request, err error) {
	if errors.Is(err, errUnauthenticated) {
		(&caller{s: s, r: r}).refused("", err)
	}
}

// refused passes on the event of a refusal.
func (c *caller) refused(name string, err error) {
	if c.s == nil || c.s.audit.take == nil {
		return
	}
	e := c.event(Refused, name)
	e.Code, e.Message = errorOf(err).Code, err.Error()
	c.s.audit.refused(e)
}

// took passes on the event of a client that holds its claim.
func (c *caller) took(d *driver.Claim, ticket int64) { c.did(Took, d, ticket) }

// did passes on an event about a claim. What it tells has happened, so it needs nobody who takes it.
func (c *caller) did(what Action, d *driver.Claim, ticket int64) {
	if c.s.audit.take == nil {
		return
	}
	e := c.event(what, d.Name)
	e.Ticket, e.By = shownTicket(ticket), person(d.Record, "")
	_ = c.s.audit.event(e) // see refused
}

// shownTicket returns a ticket as people see it; "" for 0.
func shownTicket(ticket int64) string {
	if ticket == 0 {
		return ""
	}
	return strconv.FormatInt(ticket*engine.Turns, 10)
}

// breakClaim removes a claim by hand, or asks its holder for it. It is the only way to do so: it checks the right, and does
// nothing that the audit does not take first.
func (s *Server) breakClaim(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	who := callerOf(ctx)
	if err := who.must(b.Name, Break); err != nil {
		return driver.ClaimInfo{}, err
	}
	if err := who.mustSpare(b.Name); err != nil {
		return driver.ClaimInfo{}, err
	}
	if s.breaker == nil {
		return driver.ClaimInfo{}, driver.ErrUnsupported
	}
	what := Broke
	if b.Ask {
		what = Asked
	}
	e := who.event(what, b.Name)
	e.Outcome, e.Ticket, e.By = begins, shownTicket(b.Ticket), person(b.Record, "")
	by := *b
	var err error
	if by.Record, err = who.record(b.Record); err != nil {
		return driver.ClaimInfo{}, err
	}
	if s.audit.event(e) != nil {
		return driver.ClaimInfo{}, errNoAudit
	}
	c, err := s.breaker.Break(ctx, &by)
	c = who.info(c)
	if e.Outcome = done; err != nil {
		e.Outcome, e.Code = driver.OutcomeOf(err).String(), errorOf(err).Code
	} else {
		if !b.Ask {
			s.metrics.Broke(b.Name)
		}
		e.Ticket, e.Of = shownTicket(c.Ticket), person(c.Record, holderOf(&c).Principal)
	}
	_ = s.audit.event(e) // it is done, and the first event says by whom
	return c, err
}
