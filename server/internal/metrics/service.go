package metrics

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

const (
	maxClasses = 100     // more classes would be more series than a store of metrics wants
	other      = "other" // the class of all names beyond that
)

// Waits may be as short as a request to the store, and holds as long as a night's work.
var (
	waitBounds  = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300}
	holdBounds  = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400}
	storeBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// The reasons of losses.
const (
	gone    = "gone"    // a request found that the store no longer has the claim
	broken  = "broken"  // somebody broke it by hand
	session = "session" // the session ended that the claim lived in
	silent  = "silent"  // the lease has ended, as far as this service knows: the client is dead, or renews by another replica
)

// A Service has the measurements of one lock service.
type Service struct {
	Requests   *Metric // by request and code
	Refused    *Metric // by bound
	Waiting    *Metric
	Streams    *Metric
	Ready      *Metric
	Store      *Metric // by call
	AuditFails *Metric

	wait, hold, held, waits, givenUp, losses, breaks, unfollowed *Metric

	all    []*Metric
	class  func(name string) string // nil: all names have the class ""
	claims claims

	mu      sync.Mutex // guards classes
	classes map[string]bool
}

// New returns the measurements of a service. The function returns the class of a name; nil means one class for all, "". From
// the hundredth class on, further ones count as "other".
func New(class func(name string) string) *Service {
	s := &Service{class: class, classes: map[string]bool{}, claims: claims{of: map[claimKey]*claim{}}}
	add := func(k kind, name, help string, bounds []float64, labels ...string) *Metric {
		m := &Metric{name: "stile_serve_" + name, help: help, kind: k, bounds: bounds, labels: labels, series: map[string]*series{}}
		s.all = append(s.all, m)
		return m
	}
	s.wait = add(histogram, "wait_duration_seconds", "How long claims waited that then held the lock, from their first request here.", waitBounds, "class")
	s.hold = add(histogram, "hold_duration_seconds", "How long locks were held that were granted and released here.", holdBounds, "class")
	s.held = add(gauge, "held", "Locks that were granted here and are held, as far as this service knows.", nil, "class")
	s.waits = add(counter, "waits_total", "Claims that had to stand in the queue.", nil, "class")
	s.givenUp = add(counter, "waits_given_up_total", "Claims whose client stopped to wait, or lost its place.", nil, "class")
	s.losses = add(counter, "losses_total", "Locks that ended before their client released them, by reason.", nil, "class", "reason")
	s.breaks = add(counter, "breaks_total", "Claims that were broken by hand.", nil, "class")
	s.unfollowed = add(counter, "unfollowed_claims_total", "Claims that are in no other metric, since the service follows too many.", nil)
	s.Requests = add(counter, "requests_total", "Answered requests, and items of batches, by the code of the answer.", nil, "request", "code")
	s.Refused = add(counter, "bounded_total", "Requests that were refused with status 429, or cut short, by the bound that they met.", nil, "bound")
	s.Waiting = add(gauge, "waiting_requests", "Requests that wait for a lock now.", nil)
	s.Streams = add(gauge, "event_streams", "Watches and alerts that are open now.", nil)
	s.Ready = add(gauge, "ready", "1 if the store answers and the service is not ending, as /readyz says; else 0.", nil)
	s.Store = add(histogram, "store_duration_seconds", "How long the store took to answer or to fail, by call.", storeBounds, "call")
	s.AuditFails = add(counter, "audit_failures_total", "Lines of the audit that could not be written.", nil)
	s.unfollowed.Add(0)
	s.AuditFails.Add(0)
	if class == nil {
		s.begin("")
	}
	return s
}

// Text returns all measurements in the text format.
func (s *Service) Text() []byte {
	s.sweep(time.Now())
	var b bytes.Buffer
	for _, m := range s.all {
		m.write(&b)
	}
	return b.Bytes()
}

// Broke counts a claim that was broken by hand.
func (s *Service) Broke(name string) { s.breaks.Add(1, s.classOf(name)) }

// classOf returns the class of a name, and begins it.
func (s *Service) classOf(name string) string {
	if s.class == nil {
		return ""
	}
	return s.begin(strings.ToValidUTF8(s.class(name), "\uFFFD"))
}

// begin returns the class, or other if there are too many. A new class begins with all its counters at zero.
func (s *Service) begin(class string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.classes[class] && len(s.classes) >= maxClasses {
		class = other
	}
	if s.classes[class] {
		return class
	}
	s.classes[class] = true
	for _, m := range []*Metric{s.held, s.waits, s.givenUp, s.breaks} {
		m.Add(0, class)
	}
	for _, reason := range []string{gone, broken, session, silent} {
		s.losses.Add(0, class, reason)
	}
	return class
}
