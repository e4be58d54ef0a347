package otelstile

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/metrics"
	"github.com/stilelock/stile/internal/pagetest"
)

const page = "../../docs/reference/metrics.md"

func TestPage(t *testing.T) {
	pagetest.Vet(t, page, "OpenTelemetry", `"strings"`, `"go.opentelemetry.io/otel"`, `"github.com/stilelock/stile/adapters/otelstile"`)
}

// The page lists the existing instruments, in the same order, with their kinds, units and attributes.
func TestPageListsTheInstruments(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, m := range metrics.All {
		kind, _, _ := strings.Cut(kindOf(m), " ")
		row := "| `" + m.Name + "` | " + kind + " | `" + m.Unit + "` | "
		if key := labelKey(m); key != "" {
			row += "`" + key + "` "
		}
		want.WriteString(row + "|\n")
	}
	if got := strings.Join(regexp.MustCompile("(?m)^\\| `stile\\.[^\n]*\n").FindAllString(string(text), -1), ""); got != want.String() {
		t.Errorf("%s lists\n%s\nwant\n%s", page, got, want.String())
	}
}
