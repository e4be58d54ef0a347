package promstile

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stilelock/stile/internal/metrics"
	"github.com/stilelock/stile/internal/pagetest"
)

const page = "../../docs/reference/metrics.md"

func TestPage(t *testing.T) {
	pagetest.Vet(t, page, "Prometheus", `"strings"`, `"github.com/prometheus/client_golang/prometheus"`,
		`"github.com/stilelock/stile/adapters/promstile"`)
}

// The page lists the existing metrics, in the same order, with their kinds and labels.
func TestPageListsTheMetrics(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(stile_\\w+)` \\| (\\w+) \\|(?: `(\\w+)`)? \\|").FindAllStringSubmatch(string(text), -1) {
		got = append(got, fmt.Sprint(row[1:]))
	}
	for _, m := range metrics.All {
		kind := map[metrics.Kind]string{metrics.Counter: "counter", metrics.Gauge: "gauge", metrics.Histogram: "histogram"}[m.Kind]
		want = append(want, fmt.Sprint([]string{nameOf(m), kind, m.Label}))
		for _, value := range m.Values {
			if !regexp.MustCompile("`" + value + "`").Match(text) {
				t.Errorf("%s does not say what %s=%q is", page, m.Label, value)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s lists\n%q\nwant\n%q", page, got, want)
	}
}
