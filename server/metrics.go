package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server/internal/metrics"
)

// metricsPath is the path of the measurements. They need the right to read all names: they say how much is locked, but not
// what.
const metricsPath = "/metrics"

// showMetrics answers with the measurements, as Prometheus reads them.
func (s *Server) showMetrics(w http.ResponseWriter, r *http.Request) {
	if who := callerOf(r.Context()); !who.may("", Read) {
		err := &refusal{api.CodeForbidden, fmt.Errorf("%s may not read all names, which %s needs", who.Name, metricsPath)}
		who.refused("", err)
		s.fail(w, err)
		return
	}
	ready := 0.0
	if s.unready(r.Context()) == nil {
		ready = 1
	}
	waits, streams := s.limits.open()
	s.metrics.Ready.Set(ready)
	s.metrics.Waiting.Set(float64(waits))
	s.metrics.Streams.Set(float64(streams))
	send(w, http.StatusOK, metrics.TextType, s.metrics.Text())
}

// A measured is a driver whose calls are measured, beside the server's own lock.
type measured struct {
	driver.Driver
	m   *metrics.Service
	own string // the name of the server's own lock; "" if it has none
}

func newMeasured(d driver.Driver, class func(name string) string) *measured {
	m := &measured{Driver: d, m: metrics.New(class)}
	if d.Traits().InSession {
		m.own = soleName
	}
	for _, bound := range bounds {
		m.m.Refused.Add(0, bound)
	}
	return m
}

// refused counts a request that met a bound.
func (d *measured) refused(bound string) { d.m.Refused.Add(1, bound) }

func (d *measured) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	ticket, sent := c.Ticket, time.Now()
	p, err := d.Driver.Enter(ctx, c)
	d.took("enter", sent)
	if c.Name != d.own {
		d.m.Entered(c, ticket, sent, &p, err)
	}
	return p, err
}

func (d *measured) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := d.Driver.Await(ctx, c)
	if c.Name != d.own {
		d.m.Awaited(c, &p, err)
	}
	return p, err
}

func (d *measured) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	sent := time.Now()
	renewals := d.Driver.Renew(ctx, cs)
	d.took("renew", sent)
	d.m.Renewed(cs, sent, renewals)
	return renewals
}

func (d *measured) Leave(ctx context.Context, l *driver.Release) error {
	sent := time.Now()
	d.m.Leaves(l.Claim)
	err := d.Driver.Leave(ctx, l)
	d.took("leave", sent)
	d.m.Left(l.Claim, err)
	return err
}

func (d *measured) took(call string, sent time.Time) {
	d.m.Store.Observe(time.Since(sent).Seconds(), call)
}

// An answering notes the status and the code of an answer.
type answering struct {
	http.ResponseWriter
	status int    // 0 before the header
	code   string // of an error in JSON
}

func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter } // for http.ResponseController

func (a *answering) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// noteCode notes the code of the answer that w writes.
func noteCode(w http.ResponseWriter, code string) {
	if a, ok := w.(*answering); ok {
		a.code = code
	}
}

// answered counts an answered request. What a stranger may choose, such as its path, is not in the measurements.
func (s *Server) answered(r *http.Request, a *answering) {
	request := s.callOf(r)
	if request == "" {
		request = "other"
		if p := r.URL.Path; p == alivePath || p == readyPath {
			request = "GET " + p
		}
	}
	code := a.code
	switch {
	case code != "":
	case a.status >= http.StatusMultipleChoices:
		code = strconv.Itoa(a.status)
	default: // net/http writes 200 if the handler writes nothing
		code = "ok"
	}
	s.metrics.Requests.Add(1, request, code)
}
