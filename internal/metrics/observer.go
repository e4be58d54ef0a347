// Package metrics has the measurements of a client's leases, and makes them from its events. The adapters to libraries of
// metrics differ only in their sinks.
package metrics

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile"
)

// A Sink adds to a counter or a gauge, or adds a value to a histogram. The label is one of the metric's Values, or ""
// without any. Several goroutines may call it at the same time.
type Sink func(m *Metric, class, label string, value float64)

// Options are the settings of an adapter.
type Options struct {
	Class    func(name string) string
	NearMiss time.Duration
}

const (
	defaultNearMiss = 1500 * time.Millisecond

	maxClasses = 100     // more classes would be more series than a store of metrics wants
	other      = "other" // the class of all names beyond that
)

// A Meter measures the leases of any number of clients.
type Meter struct {
	sink Sink
	opts Options

	mu      sync.Mutex // guards classes
	classes map[string]bool
}

// New returns a meter. Without a function for classes, all names have the class "", which begins at once.
func New(sink Sink, o Options) *Meter {
	if o.NearMiss == 0 {
		o.NearMiss = defaultNearMiss
	}
	m := &Meter{sink: sink, opts: o, classes: map[string]bool{}}
	if o.Class == nil {
		m.begin("")
	}
	return m
}

// class returns the class of a name, and begins it.
func (m *Meter) class(name string) string {
	if m.opts.Class == nil {
		return ""
	}
	return m.begin(strings.ToValidUTF8(m.opts.Class(name), "\uFFFD"))
}

// begin returns the class, or other if there are too many.
func (m *Meter) begin(class string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.classes[class] && len(m.classes) >= maxClasses {
		class = other
	}
	if !m.classes[class] {
		m.classes[class] = true
		m.zero(class)
	}
	return class
}

// zero sets the counters and gauges of a class to zero: nobody can see the rise of a counter that appears with the value
// one.
func (m *Meter) zero(class string) {
	for _, metric := range All {
		switch {
		case metric.Kind == Histogram:
		case metric.Label == "":
			m.sink(metric, class, "", 0)
		default:
			for _, value := range metric.Values {
				m.sink(metric, class, value, 0)
			}
		}
	}
}

// Observer returns an observer for one client.
func (m *Meter) Observer() stile.Observer {
	return (&observer{m: m, held: map[lease]string{}, queued: map[lease]bool{}}).observe
}

// A lease is a held lease: no two leases of a client have the same name and token.
type lease struct {
	name  string
	token int64
}

// An observer takes the events of one client, from one goroutine.
type observer struct {
	m    *Meter
	held map[lease]string // by lease, since the function may later give another class

	// Claims that were in a queue and have not been renewed since. Abandoned ones stay until there are too many.
	queued map[lease]bool
}

// maxQueued bounds queued.
const maxQueued = 4096

func (o *observer) observe(e stile.Event) {
	if e.Dropped > 0 {
		o.m.sink(dropped, "", "", float64(e.Dropped))
	}
	class := o.m.class(e.Name)
	add := func(m *Metric, label string, value float64) { o.m.sink(m, class, label, value) }
	switch e.Kind {
	case stile.EventAcquired:
		source := fromStore
		if e.Local {
			source = fromProcess
		}
		add(acquisitions, source, 1)
		add(wait, "", e.Waited.Seconds())
		o.begins(lease{e.Name, e.Token}, class)
	case stile.EventWaiting:
		add(waits, "", 1)
		if len(o.queued) >= maxQueued {
			clear(o.queued)
		}
		o.queued[lease{e.Name, e.Token}] = true
	case stile.EventRenewed:
		o.renewed(e, add)
	case stile.EventJeopardy:
		add(jeopardies, "", 1)
	case stile.EventLost:
		add(losses, reasonOf(e.Err), 1)
		add(hold, "", e.Held.Seconds())
		o.ends(lease{e.Name, e.Token})
	case stile.EventReleased:
		outcome := confirmed
		if e.Err != nil {
			outcome = unknown
		}
		add(releases, outcome, 1)
		add(hold, "", e.Held.Seconds())
		o.ends(lease{e.Name, e.Token})
	case stile.EventLeaked:
		add(leaks, "", 1)
	case stile.EventAsked:
		add(asks, "", 1)
	}
}

// renewed measures a renewal, except the first renewal of a claim that was in a queue: it is sent at the claim's turn, when
// only the rest of the waiter's lease is left.
func (o *observer) renewed(e stile.Event, add func(*Metric, string, float64)) {
	claim := lease{e.Name, e.Token}
	if o.queued[claim] {
		delete(o.queued, claim)
		return
	}
	add(margin, "", e.Margin.Seconds())
	if e.Margin < o.m.opts.NearMiss {
		add(nearMisses, "", 1)
	}
}

func (o *observer) begins(l lease, class string) {
	if _, is := o.held[l]; !is {
		o.held[l] = class
		o.m.sink(held, class, "", 1)
	}
}

// ends stops counting a lease, if it was counted: an attached lease began in another process.
func (o *observer) ends(l lease) {
	if class, is := o.held[l]; is {
		delete(o.held, l)
		o.m.sink(held, class, "", -1)
	}
}

// reasonOf returns why a lease was lost, in a word.
func reasonOf(err error) string {
	lost, ok := errors.AsType[*stile.LostError](err)
	if !ok || lost.Reason < 1 || int(lost.Reason) >= len(reasons) {
		return unknown
	}
	return reasons[lost.Reason-1]
}
