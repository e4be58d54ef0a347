package otelstile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/metrics"
	"github.com/stilelock/stile/internal/metricstest"
	_ "github.com/stilelock/stile/store/sqlite"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var update = flag.Bool("update", false, "write testdata/exported.txt anew")

// measured returns metrics, and a reader of their measurements.
func measured(t *testing.T, o Options) (*Metrics, *sdk.ManualReader) {
	t.Helper()
	reader := sdk.NewManualReader()
	o.MeterProvider = sdk.NewMeterProvider(sdk.WithReader(reader))
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return m, reader
}

// collected returns the instruments that a reader finds, by name.
func collected(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		if s.Scope.Name != scope {
			t.Errorf("the scope is %q", s.Scope.Name)
		}
		for _, m := range s.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// points returns an instrument's kind and its values by their attributes; for a histogram, the counts.
func points(t *testing.T, m metricdata.Metrics) (kind string, values map[string]int64) {
	t.Helper()
	values = map[string]int64{}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		kind = "UpDownCounter"
		if data.IsMonotonic {
			kind = "Counter"
		}
		for _, p := range data.DataPoints {
			values[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
		}
	case metricdata.Histogram[float64]:
		kind = "Histogram"
		for _, p := range data.DataPoints {
			values[p.Attributes.Encoded(attribute.DefaultEncoder())] = int64(p.Count) //nolint:gosec // a handful
			kind = "Histogram " + fmt.Sprint(p.Bounds)
		}
	default:
		t.Fatalf("%s is a %T", m.Name, m.Data)
	}
	return kind, values
}

// The measurements of the same story as in promstile, without the buckets: renewals come at random moments.
func TestExported(t *testing.T) {
	m, reader := measured(t, Options{Class: metricstest.Class, NearMiss: metricstest.NearMiss})
	metricstest.Live(t, m.Observer, func() {
		var text strings.Builder
		found := collected(t, reader)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			i := found[name]
			kind, values := points(t, i)
			fmt.Fprintf(&text, "%s %s %s\n\t%s\n", name, i.Unit, kind, i.Description)
			for _, attributes := range slices.Sorted(maps.Keys(values)) {
				fmt.Fprintf(&text, "\t{%s} %d\n", attributes, values[attributes])
			}
		}
		got, file := text.String(), filepath.Join("testdata", "exported.txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("measured:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A program on SQLite makes the instruments of the reference page, and no others, with attributes of few values.
func TestProgram(t *testing.T) {
	t.Parallel()
	m, reader := measured(t, Options{Class: metricstest.Class})
	url := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	open := func() (*stile.Lock, <-chan stile.Kind) {
		heard, observe := make(chan stile.Kind, 1000), m.Observer()
		client, err := stile.Open(t.Context(), url, &stile.Options{
			Observer:    func(e stile.Event) { observe(e); heard <- e.Kind },
			LockOptions: stile.LockOptions{TTL: 6 * time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client.Mutex("order/4711"), heard
	}
	here, hereHeard := open()
	there, thereHeard := open()
	await := func(heard <-chan stile.Kind, want stile.Kind) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case got := <-heard:
				if got == want {
					return
				}
			case <-limit:
				t.Fatalf("event %s did not come", want)
			}
		}
	}

	first, err := here.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- there.Do(t.Context(), func(context.Context) error { return nil }) }()
	await(thereHeard, stile.EventWaiting)
	await(hereHeard, stile.EventRenewed)
	if err := errors.Join(first.Unlock(), <-done); err != nil {
		t.Error(err)
	}
	await(hereHeard, stile.EventReleased)
	await(thereHeard, stile.EventReleased)

	found := collected(t, reader)
	for _, want := range metrics.All {
		i, is := found[want.Name]
		delete(found, want.Name)
		if !is || i.Unit != want.Unit {
			t.Errorf("%s is not there, or in unit %q: want %q", want.Name, i.Unit, want.Unit)
			continue
		}
		if kind, _ := points(t, i); kind != kindOf(want) {
			t.Errorf("%s is a %s, want %s", want.Name, kind, kindOf(want))
		}
	}
	if len(found) > 0 {
		t.Errorf("these are there too: %v", found)
	}
	for name, want := range map[string]map[string]int64{
		"stile.lock.acquisitions":  {"stile.lock.class=order,stile.lock.source=store": 2, "stile.lock.class=order,stile.lock.source=process": 0},
		"stile.lock.releases":      {"stile.lock.class=order,stile.lock.outcome=confirmed": 2, "stile.lock.class=order,stile.lock.outcome=unknown": 0},
		"stile.lock.wait.duration": {"stile.lock.class=order": 2},
		"stile.lock.hold.duration": {"stile.lock.class=order": 2},
		"stile.lock.held":          {"stile.lock.class=order": 0},
		"stile.observer.dropped":   {"": 0},
	} {
		if _, got := points(t, collected(t, reader)[name]); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// kindOf returns the kind of instrument for a metric.
func kindOf(m *metrics.Metric) string {
	switch m.Kind {
	case metrics.Histogram:
		return "Histogram " + fmt.Sprint(m.Bounds)
	case metrics.Gauge:
		return "UpDownCounter"
	default:
		return "Counter"
	}
}

// The names and units follow OpenTelemetry's semantic conventions: lower case below a namespace, durations in seconds,
// counts in braces and the singular, counters in the plural, and neither the unit nor "total" in a name.
func TestConventions(t *testing.T) {
	name, count := regexp.MustCompile(`^[a-z]+(\.[a-z]+(_[a-z]+)*)+$`), regexp.MustCompile(`^\{[a-z]*[a-rt-z]\}$`)
	for _, m := range metrics.All {
		if !name.MatchString(m.Name) || strings.Contains(m.Name, "total") || strings.Contains(m.Name, "seconds") {
			t.Errorf("the name %s breaks a rule", m.Name)
		}
		if m.Kind == metrics.Counter && m.Name != "stile.observer.dropped" && !strings.HasSuffix(m.Name, "s") {
			t.Errorf("the counter %s is not in the plural", m.Name)
		}
		if is := count.MatchString(m.Unit); is == (m.Kind == metrics.Histogram) || !is && m.Unit != "s" {
			t.Errorf("%s has the unit %s", m.Name, m.Unit)
		}
		if key := labelKey(m); key != "" && !name.MatchString(key) {
			t.Errorf("%s has the attribute %s", m.Name, key)
		}
	}
}

// Without a provider, metrics go to the program's provider, and without classes no instrument has the attribute.
func TestProgramsProvider(t *testing.T) {
	reader := sdk.NewManualReader()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	m, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Observer()(stile.Event{Kind: stile.EventAsked, Name: "order/4711"})
	if _, got := points(t, collected(t, reader)["stile.lock.asks"]); !maps.Equal(got, map[string]int64{"": 1}) {
		t.Errorf("asks: %v, want 1 without attributes", got)
	}
}

// A broken provider makes no gauges.
type broken struct{ noop.MeterProvider }

func (broken) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return nil, errors.ErrUnsupported
}

func TestProviderFails(t *testing.T) {
	m, err := New(&Options{MeterProvider: broken{}})
	if want := "otelstile: instrument stile.lock.held: "; m != nil || !errors.Is(err, errors.ErrUnsupported) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, %v; want an error that begins with %q", m, err, want)
	}
}
