package otelstile

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/metrics"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope is the name of the source of the measurements.
const scope = "github.com/stilelock/stile/adapters/otelstile"

// Options are the settings of metrics. The zero value, and nil, mean the defaults.
type Options struct {
	// MeterProvider makes the instruments. Nil means the result of otel.GetMeterProvider, which the program may set later.
	MeterProvider metric.MeterProvider

	// Class maps the name of a lock to its class, such as "order" for all of "order/4711". It must return one of a few
	// classes: from the hundredth on, further classes count as "other". Several goroutines may call it. Nil means one class
	// for all, without an attribute.
	Class func(name string) string

	// NearMiss is the least rest of a lease when the store confirms its renewal; with less, it was a near miss. 0
	// means 1.5 s, a tenth of the ttl that leases have by default; a program with another ttl sets a tenth of that.
	NearMiss time.Duration
}

// Metrics measure the leases of any number of clients. Make them with [New].
type Metrics struct{ meter *metrics.Meter }

// New makes the instruments. The error is the provider's.
func New(o *Options) (*Metrics, error) {
	if o == nil {
		o = &Options{}
	}
	provider := o.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter, to := provider.Meter(scope), sink{}
	for _, m := range metrics.All {
		add, err := instrument(meter, m)
		if err != nil {
			return nil, fmt.Errorf("otelstile: instrument %s: %w", m.Name, err)
		}
		to[m] = add
	}
	return &Metrics{metrics.New(to.add, metrics.Options{Class: o.Class, NearMiss: o.NearMiss})}, nil
}

// Observer returns an observer for [stile.Options]. Each client has one of its own.
func (m *Metrics) Observer() stile.Observer { return m.meter.Observer() }

// A sink has a function for each metric that adds to its instrument.
type sink map[*metrics.Metric]func(value float64, with metric.MeasurementOption)

// instrument makes an instrument, and returns a function that adds to it. Events have no context of their calls.
func instrument(meter metric.Meter, m *metrics.Metric) (func(float64, metric.MeasurementOption), error) {
	ctx, help, unit := context.Background(), metric.WithDescription(m.Help), metric.WithUnit(m.Unit)
	switch m.Kind {
	case metrics.Histogram:
		i, err := meter.Float64Histogram(m.Name, help, unit, metric.WithExplicitBucketBoundaries(m.Bounds...))
		return func(value float64, with metric.MeasurementOption) { i.Record(ctx, value, with) }, err
	case metrics.Gauge:
		i, err := meter.Int64UpDownCounter(m.Name, help, unit)
		return func(value float64, with metric.MeasurementOption) { i.Add(ctx, int64(value), with) }, err
	default:
		i, err := meter.Int64Counter(m.Name, help, unit)
		return func(value float64, with metric.MeasurementOption) { i.Add(ctx, int64(value), with) }, err
	}
}

// The attributes' names. Those of stile begin with its name; the reason for a lease's end has OpenTelemetry's name for
// errors.
const (
	classKey  = "stile.lock.class"
	reasonKey = "error.type"
)

// labelKey is the attribute that splits a metric further, beside the class, or "".
func labelKey(m *metrics.Metric) string {
	switch m.Label {
	case "":
		return ""
	case "reason":
		return reasonKey
	default:
		return "stile.lock." + m.Label
	}
}

// add adds to an instrument.
func (s sink) add(m *metrics.Metric, class, label string, value float64) {
	attributes := make([]attribute.KeyValue, 0, 2)
	if class != "" && !m.Whole {
		attributes = append(attributes, attribute.String(classKey, class))
	}
	if key := labelKey(m); key != "" {
		attributes = append(attributes, attribute.String(key, label))
	}
	s[m](value, metric.WithAttributes(attributes...))
}
