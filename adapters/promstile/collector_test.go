package promstile

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/stilelock/stile/internal/metricstest"
)

var update = flag.Bool("update", false, "write testdata/exported.txt anew")

// gathered returns a collector's metrics, by a registry that checks more than a program's.
func gathered(t *testing.T, c *Collector) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// exported returns the text that Prometheus would read, without the lines of buckets and sums: renewals come at random
// moments.
func exported(t *testing.T, c *Collector) string {
	t.Helper()
	var all, kept strings.Builder
	for _, f := range gathered(t, c) {
		if _, err := expfmt.MetricFamilyToText(&all, f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(all.String()) {
		if !strings.Contains(line, "_bucket{") && !strings.Contains(line, "_sum{") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestExported(t *testing.T) {
	c := New(&Options{Class: metricstest.Class, NearMiss: metricstest.NearMiss})
	metricstest.Live(t, c.Observer, func() {
		got, file := exported(t, c), filepath.Join("testdata", "exported.txt")
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
			t.Errorf("exported:\n%s\nwant:\n%s", got, want)
		}
	})
}

// Without classes all counters exist from the start, so that an alert sees the first loss.
func TestCountersBeginAtZero(t *testing.T) {
	text := exported(t, New(nil))
	for _, line := range []string{
		`stile_lock_losses_total{class="",reason="expired"} 0`, `stile_lock_near_misses_total{class=""} 0`, `stile_observer_dropped_total 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}
