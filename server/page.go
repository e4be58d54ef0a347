package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server/internal/page"
)

// The page for people is at /, and all that it asks for is below pagePath.
const pagePath = "/page/"

// firstWithin is how long the page waits for the snapshot in its HTML. Without it the page is empty until its events begin.
const firstWithin = 2 * time.Second

// maxReason is the most bytes of a reason for a break.
const maxReason = 500

// people are the parts of a server that serve the page.
type people struct {
	*page.Page
	mux    *http.ServeMux
	logins logins
}

func (s *Server) newPeople(logins logins) *people {
	p := &people{page.New(s.listAll, s.token), http.NewServeMux(), logins}
	p.mux.HandleFunc("GET /{$}", s.showPage)
	p.mux.HandleFunc("GET "+pagePath+"page.css", showFile)
	p.mux.HandleFunc("GET "+pagePath+"page.js", showFile)
	p.mux.HandleFunc("GET "+pagePath+"events", s.pageEvents)
	p.mux.HandleFunc("GET "+pagePath+"recent", s.pageRecent)
	p.mux.HandleFunc("POST "+pagePath+"break", s.pageBreak)
	p.mux.HandleFunc("POST "+pagePath+"login", s.login)
	p.mux.HandleFunc("POST "+pagePath+"logout", s.logout)
	p.mux.HandleFunc("/", noSuch)
	return p
}

// withPage answers requests for the page, and passes on all others.
func (s *Server) withPage(next http.Handler) http.Handler {
	pages := bodiless(s.people.mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, pagePath) || path.Clean(r.URL.Path) != r.URL.Path {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", page.Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.URL.Path != "/" && foreign(r) {
			s.turnAway(w, r, errors.New("the request comes from a page of another site"))
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// foreign reports whether a browser sent a request for a page of another site. GET requests are also refused then: each viewer
// costs the store a List.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// listAll reads all queues for the page.
func (s *Server) listAll(ctx context.Context) ([]driver.Listing, error) {
	if s.lister == nil {
		return nil, errors.New(errorOf(driver.ErrUnsupported).Message)
	}
	list, err := s.lister.List(ctx, &driver.Query{})
	if err != nil {
		s.identity.heed(err)
		return nil, errors.New(errorOf(err).Message)
	}
	return s.clients(&api.ListRequest{}, list), nil
}

// pageCaller returns the caller of a request for the page: by the request's own credentials, or else by the cookie of a login.
func (s *Server) pageCaller(r *http.Request) (*caller, error) {
	c, err := s.identified(r)
	if errors.Is(err, errUnauthenticated) {
		if token, ok := s.people.logins.token(r); ok {
			c, err = s.identified(withToken(r, token))
		}
		if r.URL.Path != "/" { // there a stranger may log in
			s.unknown(r, err)
		}
	}
	return c, err
}

// withToken returns a request as it would be with a token. Nobody reads its body.
func withToken(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// A pageViewer says who looks, and what the viewer may do.
type pageViewer struct {
	Name   string   `json:"name,omitempty"` // of the principal
	Blind  bool     `json:"blind,omitempty"`
	Breaks []string `json:"breaks,omitempty"` // prefixes of the names whose claims it may break
}

func (s *Server) pageViewer(c *caller) *pageViewer {
	v := &pageViewer{}
	if s.breaker != nil && c.Principal == nil {
		v.Breaks = []string{""}
	}
	if c.Principal == nil {
		return v
	}
	v.Name, v.Blind = c.Name, !c.maySome("", Read)
	for _, r := range c.Rights {
		if s.breaker != nil && slices.Contains(r.Verbs, Break) {
			v.Breaks = append(v.Breaks, r.Prefix)
		}
	}
	return v
}

// A pageEvent is an event of the page.
type pageEvent struct {
	*page.Event
	Viewer *pageViewer `json:"viewer"`
}

// A firstPage has the data in the page's HTML.
type firstPage struct {
	Store   string     `json:"store,omitempty"`
	Login   bool       `json:"login,omitempty"`   // the viewer has to log in
	Foreign bool       `json:"foreign,omitempty"` // the browser may have held back the cookie: ask again
	Event   *pageEvent `json:"event,omitempty"`
}

// showPage answers with the page's HTML.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) {
	first := &firstPage{}
	who, err := s.pageCaller(r)
	switch {
	case errors.Is(err, errUnauthenticated):
		first.Login, first.Foreign = true, foreign(r)
	case err != nil:
		s.fail(w, err)
		return
	default:
		end, err := s.limits.serves(who)
		if err != nil {
			s.fail(w, err)
			return
		}
		defer end()
		first.Store = s.d.Traits().Store
		first.Event = s.firstEvent(r.Context(), who)
	}
	text, err := page.Index(first)
	if err != nil {
		s.fail(w, err)
		return
	}
	send(w, http.StatusOK, "text/html; charset=utf-8", text)
}

// showFile answers with the page's script or style.
func showFile(w http.ResponseWriter, r *http.Request) {
	limitWrite(http.NewResponseController(w))
	page.ServeFile(w, r)
}

// firstEvent returns the event in the page's HTML; nil if the store does not answer soon.
func (s *Server) firstEvent(ctx context.Context, who *caller) *pageEvent {
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	v := s.people.Open()
	defer v.Close()
	if v.Wait(ctx) != nil {
		return nil
	}
	return s.pageEvent(v, who)
}

func (s *Server) pageEvent(v *page.Viewer, who *caller) *pageEvent {
	return &pageEvent{v.Event(func(name string) bool { return who.may(name, Read) }), s.pageViewer(who)}
}

// pageEvents answers with an event for each snapshot, until the viewer goes, has no valid credentials, or the server ends.
func (s *Server) pageEvents(w http.ResponseWriter, r *http.Request) {
	who, err := s.pageCaller(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	over, err := s.limits.stream(who, "")
	if err != nil {
		s.fail(w, err)
		return
	}
	defer over()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.ending, cancel)
	defer stop()
	out := s.stream(w, api.Events)
	v := s.people.Open()
	defer v.Close()
	for there := out.write(":\n\n"); there; {
		if v.Wait(ctx) != nil {
			if s.ending.Err() != nil {
				out.end(errEnding)
			}
			return
		}
		who, err := s.pageCaller(r) // the credentials may have been revoked, or their rights may have changed
		if err != nil {
			out.end(err)
			return
		}
		text, err := json.Marshal(s.pageEvent(v, who))
		if err != nil {
			out.end(err)
			return
		}
		there = out.write(api.EventData + string(text) + "\n\n")
	}
}

// A recentAnswer has what snapshots showed of a name.
type recentAnswer struct {
	Now  int64       `json:"now"`
	Ends []*page.End `json:"ends"` // the latest first
}

func (s *Server) pageRecent(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	who, err := s.pageCaller(r)
	if err == nil {
		err = who.must(name, Read)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	a := &recentAnswer{}
	a.Ends, a.Now = s.people.Recent(name)
	write(w, http.StatusOK, a)
}

// A pageBreakRequest asks to break a claim.
type pageBreakRequest struct {
	Name   string `json:"name"`
	ID     int64  `json:"id,string"` // the ticket of the claim
	Reason string `json:"reason"`
}

// pageBreak removes a claim by hand, with a reason.
func (s *Server) pageBreak(w http.ResponseWriter, r *http.Request) {
	var q pageBreakRequest
	if !read(w, r, &q) {
		return
	}
	who, err := s.pageCaller(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	end, err := s.limits.serves(who)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer end()
	if err := s.breakFor(r.Context(), who, &q); err != nil {
		s.fail(w, err)
		return
	}
	write(w, http.StatusOK, &api.Nothing{})
}

func (s *Server) breakFor(ctx context.Context, who *caller, q *pageBreakRequest) error {
	q.Reason = strings.TrimSpace(q.Reason)
	switch {
	case q.ID < 1:
		return invalid(errors.New("the page breaks a claim only by its ticket"))
	case q.Reason == "" || len(q.Reason) > maxReason:
		return invalid(fmt.Errorf("a break needs a reason of at most %d bytes", maxReason))
	}
	h := record.Holder{Program: "the page of stile serve", Reason: q.Reason}
	by := ""
	if who.Principal != nil {
		by, h.Owner = who.Name, who.Name
	}
	text, err := record.Of(h, 0)
	if err != nil {
		return invalid(err)
	}
	ctx = context.WithValue(ctx, callerKey{}, who)
	if _, err := s.breaks(ctx, &api.BreakRequest{Name: q.Name, Ticket: q.ID, Record: []byte(text)}); err != nil {
		return err
	}
	s.people.Broke(q.Name, q.ID, page.Broken{By: by, Reason: q.Reason})
	return nil
}
