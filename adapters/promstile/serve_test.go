package promstile

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
	_ "github.com/stilelock/stile/store/remote"
)

// scraped returns the metrics of a lock service that has served a lock, as text and as Prometheus reads them.
func scraped(t *testing.T) (string, map[string]*dto.MetricFamily) {
	t.Helper()
	s, err := server.New(memory.New(), &server.Options{Class: func(string) string { return "a \"class\"\\\n" }})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.EndWaits()
		web.CloseClientConnections()
		web.Close()
	})
	locks, err := stile.Open(t.Context(), "stile://"+web.Listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if err := locks.Mutex("a").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var body []byte
	for range 2 { // a request counts once it was answered
		res, err := http.Get(web.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || expfmt.ResponseFormat(res.Header).FormatType() != expfmt.TypeTextPlain {
			t.Fatalf("/metrics = %s, %v, %q; want text for Prometheus", res.Status, err, res.Header)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	return string(body), families
}

// Prometheus reads the metrics of the lock service, which writes them without its library, and finds no fault in their names.
func TestServiceMetrics(t *testing.T) {
	text, families := scraped(t)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %+v in\n%s", err, problems, text)
	}
	for _, name := range []string{"wait_duration_seconds", "hold_duration_seconds", "store_duration_seconds"} {
		h := families["stile_serve_"+name].GetMetric()[0].GetHistogram()
		buckets := h.GetBucket()
		last := buckets[len(buckets)-1]
		if h.GetSampleCount() == 0 || last.GetCumulativeCount() != h.GetSampleCount() || len(buckets) < 10 {
			t.Errorf("%s is %v", name, h)
		}
	}
	for _, label := range families["stile_serve_held"].GetMetric()[0].GetLabel() {
		if label.GetValue() != "a \"class\"\\\n" {
			t.Errorf("a label is %q", label.GetValue())
		}
	}
}

// The alerts of the page about running the lock service ask for metrics and labels that it has.
func TestServiceAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/serve/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, families := scraped(t)
	exported := map[string][]string{}
	for name, f := range families {
		labels := []string{"job", "instance"} // of the scraped target
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		exported[name] = labels
	}
	alerts := regexp.MustCompile("(?m)^\\| `([^`]*stile_serve_[a-z][^`]*)` ").FindAllStringSubmatch(string(page), -1)
	if len(alerts) != 3 {
		t.Errorf("the page has %d alerts; want three", len(alerts))
	}
	for _, a := range alerts {
		if _, err := check(a[1], exported); err != nil {
			t.Error(err)
		}
	}
}
