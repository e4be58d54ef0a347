package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// scrape asks a server for its metrics, and returns the values by the texts of their series, without stile_serve_.
func scrape(t *testing.T, by http.RoundTripper, url string) map[string]float64 {
	t.Helper()
	status, text := metricsBy(t, by, url)
	if status != http.StatusOK {
		t.Fatalf("/metrics = %d %s", status, text)
	}
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSpace(line)
		at := strings.LastIndex(line, " ")
		series, value := line[:max(at, 0)], line[at+1:]
		n, err := strconv.ParseFloat(value, 64)
		if series, ok := strings.CutPrefix(series, "stile_serve_"); ok && err == nil {
			all[series] = n
		} else {
			t.Errorf("the line %q: %v", line, err)
		}
	}
	return all
}

func metricsBy(t *testing.T, by http.RoundTripper, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// measures checks some of the metrics of a server.
func (l *limited) measures(when string, want map[string]float64) {
	l.Helper()
	got := scrape(l.T, as{"ops", l.by}, inBubble)
	for _, series := range slices.Sorted(maps.Keys(want)) {
		if n, there := got[series]; n != want[series] || !there {
			l.Errorf("%s: %s is %v (%v); want %v", when, series, n, there, want[series])
		}
	}
}

// Each turn of a lock is measured in the class of its name: waits, holds, losses and breaks.
func TestMetricsOfLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{Class: func(name string) string { return strings.Trim(name, "0123456789") }}, "ops")
		take := func(name string) said {
			t.Helper()
			a := l.lock("ops", "PUT", name+"?ttl=1h", "")
			if a = l.lock("ops", "POST", name, a.Handle); a.status != 200 {
				t.Fatalf("the lock %s: %d %s", name, a.status, a.text)
			}
			return a
		}
		first := take("a1")
		l.lock("ops", "PUT", "a1", "") // a try is no wait
		waits := l.later("ops", "PUT", "a1?wait=1m", "")
		gives := l.later("ops", "PUT", "a1?wait=1m", myID)
		l.measures("two wait", map[string]float64{
			`held{class="a"}`: 1, `waits_total{class="a"}`: 2, `waiting_requests`: 2, `event_streams`: 0, `waits_given_up_total{class="a"}`: 0,
			`losses_total{class="a",reason="broken"}`: 0, `breaks_total{class="a"}`: 0, `wait_duration_seconds_count{class="a"}`: 1,
		})
		time.Sleep(2 * time.Second)
		l.lock("ops", "DELETE", "a1", myID)
		<-gives
		l.lock("ops", "DELETE", "a1", first.Handle)
		second := <-waits
		l.measures("the second holds", map[string]float64{
			`held{class="a"}`: 1, `waits_given_up_total{class="a"}`: 1, `waiting_requests`: 0, `unfollowed_claims_total`: 0,
			`wait_duration_seconds_count{class="a"}`: 2, `wait_duration_seconds_sum{class="a"}`: 2, `wait_duration_seconds_bucket{class="a",le="1"}`: 1,
			`wait_duration_seconds_bucket{class="a",le="5"}`: 2, `hold_duration_seconds_count{class="a"}`: 1, `hold_duration_seconds_sum{class="a"}`: 2,
		})
		if status, text := l.ask("ops", api.Break, &api.BreakRequest{Name: "a1"}); status != 200 {
			t.Fatal(text)
		}
		if a := l.lock("ops", "POST", "a1", second.Handle); a.Code != api.CodeGone {
			t.Fatalf("the broken claim: %s", a.text)
		}
		l.lock("ops", "PUT", "b1", "")         // and its client dies
		l.lock("ops", "PUT", "b2?wait=1s", "") // this one holds too
		take("b3")
		l.lock("ops", "PUT", "b3?wait=1s", "") // its client waits for a second, and never comes again
		time.Sleep(15 * time.Second)
		l.measures("after all that went wrong", map[string]float64{
			`breaks_total{class="a"}`: 1, `losses_total{class="a",reason="broken"}`: 1, `losses_total{class="a",reason="silent"}`: 0, `held{class="a"}`: 0,
			`hold_duration_seconds_count{class="a"}`: 2, `losses_total{class="b",reason="silent"}`: 2, `waits_total{class="b"}`: 1,
			`waits_given_up_total{class="b"}`: 1, `held{class="b"}`: 1,
		})
	})
}

// The contract API is measured like the simple one: a claim waits over several requests. A claim that began elsewhere counts
// only if it is lost.
func TestMetricsOfContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{}, "ops")
		holder, waiter, elsewhere := named("a", "id1"), named("a", "id2"), named("b", "id3")
		enter := func(c *api.Claim) {
			t.Helper()
			status, text := l.ask("ops", api.Enter, &api.EnterRequest{Claim: *c})
			if status != 200 {
				t.Fatal(text)
			}
			_, after, _ := strings.Cut(text, `"ticket":"`)
			ticket, _, _ := strings.Cut(after, `"`)
			var err error
			if c.Ticket, err = strconv.ParseInt(ticket, 10, 64); err != nil {
				t.Fatal(text)
			}
		}
		enter(&holder)
		enter(&waiter)
		time.Sleep(3 * time.Second)
		enter(&waiter) // as a client does that waits
		l.ask("ops", api.Leave, &api.LeaveRequest{Claim: holder})
		enter(&waiter)
		enter(&waiter)
		elsewhere.Ticket = 7
		l.ask("ops", api.Renew, &api.RenewRequest{Claims: []api.Claim{waiter, elsewhere}})
		l.measures("the waiter holds", map[string]float64{
			`held{class=""}`: 1, `waits_total{class=""}`: 1, `wait_duration_seconds_count{class=""}`: 2, `wait_duration_seconds_sum{class=""}`: 3,
			`hold_duration_seconds_sum{class=""}`: 3, `losses_total{class="",reason="gone"}`: 0, `waits_given_up_total{class=""}`: 0,
			`requests_total{request="POST /v1/enter",code="ok"}`: 5, `store_duration_seconds_count{call="enter"}`: 5,
			`store_duration_seconds_count{call="renew"}`: 1, `store_duration_seconds_count{call="leave"}`: 1, `ready`: 1,
		})
	})
}

// Requests are counted by what was asked and answered, and by the bound that they met. Strangers choose none of the labels.
func TestMetricsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxWaits: 4}, "ops")
		for _, path := range []string{"/secret", "/v1/locks/a/secret", "/v1/secret"} {
			for _, method := range []string{"GET", "SECRET"} {
				r, err := http.NewRequestWithContext(t.Context(), method, inBubble+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := l.by.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			}
		}
		l.lock("ops", "PUT", "a", "")
		l.lock("ops", "PUT", "a", "")
		var waits []<-chan said
		for range 3 {
			waits = append(waits, l.later("ops", "PUT", "a?wait=1s", ""))
		}
		l.lock("ops", "PUT", "a?wait=1s", "")
		for _, w := range waits {
			<-w
		}
		l.measures("in the end", map[string]float64{
			`requests_total{request="GET /v1/locks",code="unauthenticated"}`: 1, `requests_total{request="other",code="unauthenticated"}`: 5,
			`requests_total{request="PUT /v1/locks",code="ok"}`: 1, `requests_total{request="PUT /v1/locks",code="held"}`: 4,
			`requests_total{request="PUT /v1/locks",code="too_many"}`: 1, `bounded_total{bound="principal_waits"}`: 1, `bounded_total{bound="rate"}`: 0,
		})
		if _, text := metricsBy(t, as{"ops", l.by}, inBubble); strings.Contains(text, "secret") || strings.Contains(text, "SECRET") {
			t.Errorf("a stranger's words are in the metrics:\n%s", text)
		}
	})
}

// Watches are counted apart from the requests that wait for a lock.
func TestMetricsOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{}, "ops")
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, inBubble+api.Watch+"?name=a", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := as{"ops", l.by}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		l.measures("a watch", map[string]float64{`event_streams`: 1, `waiting_requests`: 0})
		cancel()
		res.Body.Close()
		synctest.Wait()
		l.measures("afterwards", map[string]float64{`event_streams`: 0, `requests_total{request="GET /v1/watch",code="ok"}`: 1})
	})
}

// A service whose store fails, or whose audit is full, says so.
func TestMetricsOfFaults(t *testing.T) {
	f := newFake()
	var down atomic.Bool
	store := &listed{fake: f, list: func(context.Context) error {
		if down.Load() {
			return errors.New("no store")
		}
		return nil
	}}
	n := notebook{full: errors.New("full")}
	_, url := start(t, store, &server.Options{Audit: n.take})
	down.Store(true)
	if status, err := asks(t, url+api.Break, body(t, &api.BreakRequest{Name: "a"})); status != 503 {
		t.Errorf("a break without a line = %d, %v", status, err)
	}
	got := scrape(t, http.DefaultTransport, url)
	if got["ready"] != 0 || got["audit_failures_total"] != 1 || got[`breaks_total{class=""}`] != 0 || got[`store_duration_seconds_count{call="ready"}`] != 1 {
		t.Errorf("the metrics are %v; want a service that is not ready, and a line that failed", got)
	}
}

// With credentials the metrics are for a principal that may read all names. They have no name, id, handle or principal.
func TestMetricsAreGuarded(t *testing.T) {
	d := newDoor(map[string]server.Right{
		"ops-secret": everything, "prometheus": {Verbs: []server.Verb{server.Read}}, "part": {Verbs: server.Verbs, Prefix: "a"},
		"locker": {Verbs: []server.Verb{server.Lock, server.Break}},
	})
	url := guarded(t, newFake(), d)
	held := simple(t, url, "ops-secret", "PUT", "name-secret?owner=owner-secret&reason=why-secret", myID)
	description, all := describedMetrics(t, url)
	for principal, want := range map[string]int{"nobody": 401, "part": 403, "locker": 403, "prometheus": 200} {
		status, text := metricsBy(t, bearer(principal), url)
		if status != want || !all[strconv.Itoa(status)] {
			t.Errorf("%s gets %d %s; want %d, one of %s", principal, status, text, want, description)
		}
		for _, secret := range []string{"secret", "prometheus", myID, held.Handle, held.Token} {
			if want == 200 && strings.Contains(text, secret) {
				t.Errorf("%s is in the metrics:\n%s", secret, text)
			}
		}
	}
}

// describedMetrics returns the statuses of /metrics in a server's description.
func describedMetrics(t *testing.T, url string) (string, map[string]bool) {
	t.Helper()
	d := descriptionBy(t, bearer("prometheus"), url)
	o, all := operationOf(t, d.Paths["/metrics"]["get"]), map[string]bool{}
	for status := range o.Responses {
		all[status] = true
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(all))), all
}

// The page has each metric.
func TestMetricsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/serve/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, newFake(), nil)
	_, text := metricsBy(t, http.DefaultTransport, url)
	types := 0
	for line := range strings.Lines(text) {
		name, isType := strings.CutPrefix(line, "# TYPE stile_serve_")
		if !isType {
			continue
		}
		types++
		if name, _, _ = strings.Cut(name, " "); !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/serve/operating.md does not have %s", name)
		}
	}
	if types == 0 {
		t.Error("there are no metrics")
	}
}

// An unbounded number of classes, and of claims, takes bounded memory.
func TestMetricsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{Class: func(name string) string { return name }}, "ops")
		for i := range 150 {
			l.lock("ops", "PUT", fmt.Sprint("n", i), "")
		}
		l.measures("150 classes", map[string]float64{`held{class="n0"}`: 1, `held{class="n99"}`: 1, `held{class="other"}`: 50})
		if _, there := scrape(t, as{"ops", l.by}, inBubble)[`held{class="n100"}`]; there {
			t.Error("there is a class more than a hundred")
		}
	})
}
