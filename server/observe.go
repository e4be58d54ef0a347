package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

func (s *Server) describe(context.Context, *api.Nothing) (*api.TraitsAnswer, error) {
	return &api.TraitsAnswer{Traits: s.traits(), Lists: s.lister != nil, Watches: s.watcher != nil, Breaks: s.breaker != nil,
		Alerts: s.alerter}, nil
}

func (s *Server) breaks(ctx context.Context, q *api.BreakRequest) (*api.BreakAnswer, error) {
	if err := driver.CheckName(q.Name); err != nil {
		return nil, invalid(err)
	}
	switch {
	case q.Ticket < 0 || q.Ticket > api.MaxTicket:
		return nil, invalid(fmt.Errorf("a ticket is from 0 to %d", api.MaxTicket))
	case len(q.Record) > driver.MaxRecord:
		return nil, invalid(fmt.Errorf("a record has more than %d bytes", driver.MaxRecord))
	}
	c, err := s.breakClaim(ctx, &driver.BreakRequest{Name: q.Name, Ticket: q.Ticket, Ask: q.Ask, Record: string(q.Record)})
	if err != nil {
		return nil, err
	}
	return &api.BreakAnswer{Claim: api.NewClaimInfo(c)}, nil
}

// list answers with a line for each part, so that the client sees the store's progress. An error before the first line is an
// ordinary answer.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	var q api.ListRequest
	if !read(w, r, &q) || !s.meant(w, r) {
		return
	}
	who := callerOf(r.Context())
	over, err := s.mayList(who, &q)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer over()
	all := q.Name != "" || who.may(q.Prefix, Read)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var (
		out   = s.stream(w, api.Lines)
		heard atomic.Int64
		news  = make(chan struct{}, 1)
		ended = make(chan struct{})
		list  []driver.Listing
	)
	go func() {
		defer close(ended)
		list, err = s.lister.List(driver.WhenHeard(ctx, func(n int) {
			heard.Add(int64(n))
			notify(news)
		}), &driver.Query{Name: q.Name, Prefix: q.Prefix})
	}()
	for over := false; !over; {
		select {
		case <-news:
		case <-ended:
			over = true
		}
		n := heard.Swap(0)
		part := &api.ListPart{}
		if all { // the count covers only names that the caller may read
			part.Heard = int(n)
		}
		if n > 0 && !out.part(part) {
			cancel() // the client is gone
		}
	}
	if err != nil && !out.begun {
		s.fail(w, err)
		return
	}
	if err != nil {
		out.part(&api.ListPart{Error: out.error(err)})
		return
	}
	out.list(who, s.clients(&q, list))
}

// clients returns the queues of a list without the service's own, unless the list is about that name.
func (s *Server) clients(q *api.ListRequest, list []driver.Listing) []driver.Listing {
	if s.sole == nil || q.Name != "" {
		return list
	}
	return slices.DeleteFunc(list, func(l driver.Listing) bool { return l.Name == soleName })
}

// mayList returns an error if the caller must not have a list now. Otherwise the list counts until over is called.
func (s *Server) mayList(who *caller, q *api.ListRequest) (over func(), err error) {
	if s.lister == nil {
		return nil, driver.ErrUnsupported
	}
	if err := who.mustList(q); err != nil {
		return nil, err
	}
	return s.limits.list(who)
}

// notify signals news, unless a signal is already pending.
func notify(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// watch answers with an event for each change, until the client goes, loses its right, or the watch ends.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if err := driver.CheckName(name); err != nil {
		s.fail(w, invalid(err))
		return
	}
	if !s.meant(w, r) {
		return
	}
	if s.watcher == nil {
		s.fail(w, driver.ErrUnsupported)
		return
	}
	who := callerOf(r.Context())
	mayRead := func(who *caller) error { return who.must(name, Read) }
	if err := mayRead(who); err != nil {
		s.fail(w, err)
		return
	}
	over, err := s.limits.watch(who, name)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer over()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.ending, cancel)
	defer stop()
	var (
		out   = s.stream(w, api.Events)
		news  = make(chan struct{}, 1)
		ended = make(chan struct{})
		alive = time.NewTicker(api.Alive)
	)
	defer alive.Stop()
	go func() {
		defer close(ended)
		err = s.watcher.Watch(ctx, name, func() { notify(news) })
	}()
	for {
		var (
			there   bool
			refused error
		)
		select {
		case <-news:
			if refused = who.still(mayRead); refused != nil {
				break
			}
			there = out.write(api.EventChanged + "\n" + api.EventData + "{}\n\n")
		case <-alive.C:
			if refused = who.still(mayRead); refused != nil {
				break
			}
			there = out.write(":\n\n")
		case <-ended:
			if s.ending.Err() != nil {
				err = errEnding
			}
			out.end(err)
			return
		}
		if !there {
			cancel()
			<-ended
			if refused != nil { // otherwise the client is gone
				out.end(refused)
			}
			return
		}
	}
}

// A stream is an answer that is written in parts.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
	until time.Time // when the client must have accepted the whole answer; zero for one that lasts
}

// stream prepares an answer in parts. The headers go out with the first part.
func (s *Server) stream(w http.ResponseWriter, kind string) *stream {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(api.TraitsTag, s.traits().Tag())
	return &stream{w: w, rc: http.NewResponseController(w)}
}

// write sends a part and reports whether the client is still there.
func (st *stream) write(text string) bool {
	st.begun = true
	if limitWrite(st.rc); !st.until.IsZero() && time.Until(st.until) < writeWithin {
		_ = st.rc.SetWriteDeadline(st.until) // this fails in a program with its own limits
	}
	defer unlimitWrite(st.rc)
	if _, err := st.w.Write([]byte(text)); err != nil {
		return false
	}
	err := st.rc.Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// part sends a part of a list.
func (st *stream) part(p *api.ListPart) bool {
	line, err := json.Marshal(p)
	return err == nil && st.write(string(line)+"\n")
}

// list sends the queues that the caller may read, and the end of the list.
func (st *stream) list(who *caller, list []driver.Listing) {
	st.until = time.Now().Add(listWithin)
	for i := range list {
		if who.may(list[i].Name, Read) && !st.part(&api.ListPart{Listing: who.listing(list[i])}) {
			return
		}
	}
	st.part(&api.ListPart{End: true})
}

// error returns an error for a part.
func (st *stream) error(err error) *api.Error {
	e := errorOf(err)
	e.Request = requestOf(st.w)
	return e
}

// end sends the error that ends a watch.
func (st *stream) end(err error) {
	if err == nil {
		err = driver.Unreachable(errors.New("the watch has ended"))
	}
	if text, err := json.Marshal(st.error(err)); err == nil {
		st.write(api.EventEnd + "\n" + api.EventData + string(text) + "\n\n")
	}
}
