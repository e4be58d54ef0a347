package promstile

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/metrics"
)

// Options are the settings of a collector. The zero value, and nil, mean the defaults.
type Options struct {
	// Class maps the name of a lock to its class, such as "order" for all of "order/4711". It must return one of a few
	// classes: from the hundredth on, further classes count as "other". Several goroutines may call it. Nil means one class
	// for all, "", which Prometheus treats as no label.
	Class func(name string) string

	// NearMiss is the least rest of a lease when the store confirms its renewal; with less, it was a near miss. 0
	// means 1.5 s, a tenth of the ttl that leases have by default; a program with another ttl sets a tenth of that.
	NearMiss time.Duration
}

// A Collector measures the leases of any number of clients. It is a [prometheus.Collector].
type Collector struct {
	meter *metrics.Meter
	vecs  map[*metrics.Metric]vec
}

// New returns a collector. Register it, and give its Observer to clients.
func New(o *Options) *Collector {
	if o == nil {
		o = &Options{}
	}
	c := &Collector{vecs: map[*metrics.Metric]vec{}}
	for _, m := range metrics.All {
		c.vecs[m] = newVec(m)
	}
	c.meter = metrics.New(c.add, metrics.Options{Class: o.Class, NearMiss: o.NearMiss})
	return c
}

// Observer returns an observer for [stile.Options]. Each client has one of its own.
func (c *Collector) Observer() stile.Observer { return c.meter.Observer() }

// Describe sends the descriptions of the metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, v := range c.vecs {
		v.Describe(to)
	}
}

// Collect sends the present metrics.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, v := range c.vecs {
		v.Collect(to)
	}
}

// A vec is one metric, for all classes and values of its label.
type vec struct {
	prometheus.Collector
	add func(value float64, labels ...string) // with value 0 and no histogram, the series begins
}

func newVec(m *metrics.Metric) vec {
	var labels []string
	if !m.Whole {
		labels = append(labels, "class")
	}
	if m.Label != "" {
		labels = append(labels, m.Label)
	}
	opts := prometheus.Opts{Name: nameOf(m), Help: m.Help}
	switch m.Kind {
	case metrics.Histogram:
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: opts.Name, Help: opts.Help, Buckets: m.Bounds}, labels)
		return vec{v, func(value float64, labels ...string) { v.WithLabelValues(labels...).Observe(value) }}
	case metrics.Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts), labels)
		return vec{v, func(value float64, labels ...string) { v.WithLabelValues(labels...).Add(value) }}
	default:
		v := prometheus.NewCounterVec(prometheus.CounterOpts(opts), labels)
		return vec{v, func(value float64, labels ...string) { v.WithLabelValues(labels...).Add(value) }}
	}
}

// nameOf returns a metric's name as Prometheus writes names. The exporters of OpenTelemetry make the same name.
func nameOf(m *metrics.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == metrics.Counter {
		name += "_total"
	}
	return name
}

// add adds to a metric.
func (c *Collector) add(m *metrics.Metric, class, label string, value float64) {
	labels := make([]string, 0, 2)
	if !m.Whole {
		labels = append(labels, class)
	}
	if m.Label != "" {
		labels = append(labels, label)
	}
	c.vecs[m].add(value, labels...)
}
