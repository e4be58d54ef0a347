package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/server"
)

// A notebook takes events, until it is full.
type notebook struct {
	mu     sync.Mutex // guards the fields below
	events []server.Event
	full   error
}

func (n *notebook) take(e server.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.full == nil {
		n.events = append(n.events, e)
	}
	return n.full
}

// of returns the events about some actions.
func (n *notebook) of(actions ...server.Action) (some []server.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		for _, a := range actions {
			if e.Action == a {
				some = append(some, e)
			}
		}
	}
	return some
}

const why = `{"owner":"olga","program":"stile","host":"db1","pid":7,"reason":"stuck since noon"}`

// Who broke what, and why, is written before the break and after it, with the id that the answer has too.
func TestBreaksAreAudited(t *testing.T) {
	var n notebook
	d := newDoor(map[string]server.Right{"ci": everything, "ops": everything})
	_, url := start(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take})
	held := simple(t, url, "ci", "PUT", "a?owner=nightly&reason=tests", "")
	q := &api.BreakRequest{Name: "a", Record: []byte(why)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+api.Break, strings.NewReader(body(t, q)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.JSON)
	r.Header.Set("X-Forwarded-For", "10.1.2.3")
	res, err := bearer("ops").RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	id := res.Header.Get(api.RequestID)
	events := n.of(server.Broke)
	if res.StatusCode != 200 || len(events) != 2 {
		t.Fatalf("%s, %+v; want two events", res.Status, events)
	}
	by := server.Person{Owner: "olga", Program: "stile", Host: "db1", PID: 7, Reason: "stuck since noon"}
	for i, want := range []string{"begins", "done"} {
		e := events[i]
		if e.Outcome != want || e.Request != id || id == "" || e.Principal != "ops" || e.Name != "a" || e.By == nil || *e.By != by ||
			e.Call != "POST /v1/break" || e.From != "127.0.0.1" || e.Forwarded != "10.1.2.3" || e.Time.IsZero() || e.Code != "" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if e := events[1]; e.Ticket != held.Token || e.Of == nil || e.Of.Owner != "nightly" || e.Of.Reason != "tests" {
		t.Errorf("the last event is %+v of %+v; want the claim %s of nightly", e, e.Of, held.Token)
	}
	// The claim is gone now, and memory cannot ask.
	for _, q := range []*api.BreakRequest{{Name: "a", Ticket: 9, Record: []byte(why)}, {Name: "a", Ask: true}} {
		contract(t, url, "ops", api.Break, q)
	}
	events = n.of(server.Broke, server.Asked)
	if e := events[3]; len(events) != 6 || e.Outcome != "refused" || e.Code != api.CodeGone || e.Ticket != fmt.Sprint(9*engine.Turns) || e.Of != nil {
		t.Errorf("the event of a break in vain is %+v", e)
	}
	if e := events[5]; e.Action != server.Asked || e.Outcome == "done" || e.By != nil {
		t.Errorf("the event of an ask is %+v", e)
	}
}

// What the audit does not take is not broken. The holder keeps its lock, and the client may ask another service.
func TestNoBreakWithoutAudit(t *testing.T) {
	n := notebook{full: errors.New("the secret disk is full")}
	f := newFake()
	_, url := start(t, f, &server.Options{Audit: n.take})
	u := &user{t, rewriting(url)}
	held := u.gets(200, "", "PUT", "a", "")
	for _, ask := range []bool{false, true} {
		status, err := asks(t, url+api.Break, body(t, &api.BreakRequest{Name: "a", Ask: ask}))
		if status != 503 || !driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeUnsent ||
			!strings.Contains(err.Error(), "cannot write its audit") || strings.Contains(err.Error(), "secret") {
			t.Errorf("a break without a line = %d, %v (%v); want that nothing was sent", status, err, driver.OutcomeOf(err))
		}
	}
	u.gets(200, "", "POST", "a", held.Handle)
	n.full = nil
	if status, err := asks(t, url+api.Break, body(t, &api.BreakRequest{Name: "a"})); status != 200 {
		t.Errorf("a break with lines = %d, %v", status, err)
	}
	u.gets(410, api.CodeGone, "POST", "a", held.Handle)
}

// Each kind of refusal is written: who asked for what, from where, and why not.
func TestRefusalsAreAudited(t *testing.T) {
	var n notebook
	d := newDoor(map[string]server.Right{"ci": {Verbs: []server.Verb{server.Lock}, Prefix: "ci/"}})
	_, url := start(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take})
	_, alone := start(t, newFake(), &server.Options{Audit: n.take})
	send := func(url, method, path, principal string, set func(*http.Request)) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if set(r); principal != "" {
			r.Header.Set("Authorization", "Bearer "+principal)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if events := n.of(server.Refused); len(events) == 0 || events[len(events)-1].Request != res.Header.Get(api.RequestID) {
			t.Errorf("%s %s by %q = %s, without an event", method, path, principal, res.Status)
		}
	}
	nothing := func(*http.Request) {}
	foreign := func(r *http.Request) { r.Host = "evil.example" }
	send(url, "PUT", "/v1/locks/prod/a", "ci", nothing)
	send(url, "GET", "/v1/watch?name=ci/a", "ci", nothing)
	send(url, "PUT", "/v1/locks/a-secret?a-secret", "thief", nothing)
	send(url, "GET", "/a-secret", "", nothing)
	send(url, "BREW", "/v1/locks/a-secret", "", nothing)
	send(url, "POST", "/v1/break", "ci", foreign)
	send(url, "POST", "/v1/break", "ci", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
	send(alone, "POST", "/v1/break", "", func(r *http.Request) { r.Header.Set("X-Forwarded-For", strings.Repeat("9", 5000)) })
	send(alone, "POST", "/v1/break", "", foreign)
	want := []server.Event{
		{Principal: "ci", Name: "prod/a", Code: api.CodeForbidden, Call: "PUT /v1/locks", Message: `ci may not lock "prod/a"`},
		{Principal: "ci", Name: "ci/a", Code: api.CodeForbidden, Call: "GET /v1/watch", Message: `ci may not read "ci/a"`},
		{Code: api.CodeUnauthenticated, Call: "PUT /v1/locks", Message: "no valid credentials"},
		{Code: api.CodeUnauthenticated, Message: "no valid credentials"},
		{Code: api.CodeUnauthenticated, Message: "no valid credentials"},
		{Code: api.CodeForbidden, Call: "POST /v1/break", Message: "does not serve this Host"},
		{Code: api.CodeForbidden, Call: "POST /v1/break", Message: "a page of another site"},
		{Code: api.CodeForbidden, Call: "POST /v1/break", Message: "X-Forwarded-For", Forwarded: strings.Repeat("9", 200)},
		{Code: api.CodeForbidden, Call: "POST /v1/break", Message: "the Host is another"},
	}
	got := n.of(server.Refused)
	if len(got) != len(want) {
		t.Fatalf("%d events: %+v; want %d", len(got), got, len(want))
	}
	for i, e := range got {
		w := want[i]
		if e.Principal != w.Principal || e.Name != w.Name || e.Code != w.Code || e.Call != w.Call || !strings.Contains(e.Message, w.Message) ||
			e.From != "127.0.0.1" || e.Forwarded != w.Forwarded {
			t.Errorf("event %d is %+v; want %+v", i, e, w)
		}
		if strings.Contains(fmt.Sprint(e), "secret") {
			t.Errorf("event %d shows a path that a stranger sent: %+v", i, e)
		}
	}
}

// A flood of refusals does not fill the audit, hides no other principal's refusals, and is counted.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		d := newDoor(map[string]server.Right{"ci": {}, "cd": {}})
		s := newServer(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take})
		flood := func(principal string, times int) {
			for range times {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/locks/a", nil)
				r.Header.Set("Authorization", "Bearer "+principal)
				s.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		count := func() (lines, more map[string]int) {
			lines, more = map[string]int{}, map[string]int{}
			for _, e := range n.of(server.Refused) {
				lines[e.Principal]++
				more[e.Principal] += e.More
			}
			return lines, more
		}
		flood("thief", 100)
		flood("nobody", 100)
		flood("ci", 30)
		flood("cd", 3)
		if lines, _ := count(); lines[""] != 20 || lines["ci"] != 20 || lines["cd"] != 3 {
			t.Errorf("within a minute there are %v events; want 20 of strangers, 20 of ci and 3 of cd", lines)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines, more := count(); lines[""] != 21 || more[""] != 180 || lines["ci"] != 21 || more["ci"] != 10 || lines["cd"] != 3 {
			t.Errorf("after a minute there are %v events, and %v more; want 180 and 10 more", lines, more)
		}
		flood("thief", 25)
		s.EndWaits()
		if lines, more := count(); lines[""] != 42 || more[""] != 185 {
			t.Errorf("at the end there are %v events, and %v more; want 42 and 185", lines, more)
		}
		s.EndWaits()
		if lines, _ := count(); lines[""] != 42 {
			t.Errorf("a second end writes %v events; want none", lines)
		}
	})
}

// Locks that are taken and released have events too, in both APIs.
func TestHoldsAreAudited(t *testing.T) {
	var n notebook
	_, url := start(t, newFake(), &server.Options{Audit: n.take})
	u := &user{t, rewriting(url)}
	held := u.gets(200, "", "PUT", "a?owner=nightly", "")
	c := claim("x", 0)
	c.Record = []byte(why)
	ask := func(path string, q any) {
		if _, err := asks(t, url+path, body(t, q)); err != nil {
			t.Fatal(err)
		}
	}
	ask(api.Enter, &api.EnterRequest{Claim: c}) // it waits
	waits := n.of(server.Took)
	u.gets(200, "", "DELETE", "a", held.Handle)
	ask(api.Await, &api.AwaitRequest{Claim: c, Within: time.Minute})
	ask(api.Leave, &api.LeaveRequest{Claim: c})
	took, released := n.of(server.Took), n.of(server.Released)
	if len(waits) != 1 || len(took) != 2 || len(released) != 2 {
		t.Fatalf("%+v, then %+v, released %+v; want 1, 2 and 2", waits, took, released)
	}
	if took[0].Ticket != held.Token || took[0].By.Owner != "nightly" || released[0].Ticket != held.Token || took[1].By.Reason != "stuck since noon" ||
		took[1].Ticket <= took[0].Ticket || took[1].Name != "a" || released[1].Name != "a" {
		t.Errorf("took %+v, released %+v", took, released)
	}
}

// Each answer has an id that the service drew, in the header and in its error, also where an error ends a stream.
func TestRequestsHaveIDs(t *testing.T) {
	f := newFake()
	s, url := start(t, f, nil)
	seen := map[string]bool{}
	ask := func(method, path, text string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Set("Stile-Request", "mine"); text != "" {
			r.Header.Set("Content-Type", api.JSON)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		id := res.Header.Get("Stile-Request")
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: a browser may guess the type of the answer", method, path)
		}
		if err != nil || len(id) != 26 || seen[id] {
			t.Fatalf("%s %s has the id %q, %v; want a new one", method, path, id, err)
		}
		seen[id] = true
		if res.StatusCode != 200 && !strings.Contains(string(answer), fmt.Sprintf(`"request":%q`, id)) {
			t.Errorf("%s %s: %s lacks the id %s", method, path, answer, id)
		}
		return strings.ReplaceAll(string(answer), id, "ID")
	}
	for range 2 {
		ask("GET", "/v1/locks/a", "")
		ask("GET", "/", "")
		ask("GET", "/v1/locks/a?x", "")
		ask("POST", api.Enter, "{}")
		ask("POST", api.Enter, "no JSON")
		ask("POST", api.Traits, "{}")
	}
	s.EndWaits()
	if got := ask("GET", api.Watch+"?name=a", ""); !strings.Contains(got, api.EventEnd) || !strings.Contains(got, `"request":"ID"`) {
		t.Errorf("the watch is %s; want that its end has the id", got)
	}
	halfway := broken{f}
	halfway.enter = func(context.Context, *driver.Claim) (driver.Place, error) { return driver.Place{}, io.ErrUnexpectedEOF }
	_, url = start(t, halfway, nil)
	ask("POST", api.List, "{}")
}

// A writer is a log that several goroutines write.
type writer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (w *writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

// No answer to anybody but the owner, no event and no line of a log has a handle, an id, a client's name or a credential,
// whatever clients do with them.
func TestNoSecretIsShown(t *testing.T) {
	var (
		n   notebook
		out writer
	)
	d := newDoor(map[string]server.Right{"ci-credential": everything, "ops-credential": everything})
	for credential, p := range d.of {
		p.Name = strings.TrimSuffix(strings.TrimPrefix(credential, "Bearer "), "-credential")
	}
	url := serve(t, newServer(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take}), &out)
	const id = "an-id-of-22-characters-or-more"
	secrets := []string{"-credential", id, "a-client", "a-job"}
	c := claim(id+"-2", 0)
	c.Name, c.Client, c.Owner = "b", "a-client", "a-job"
	credentials := []string{"ci-credential", "ops-credential", "no-credential", "Bearer ci-credential", ""}
	var all sync.WaitGroup
	for _, credential := range credentials {
		all.Go(func() {
			hold := simple(t, url, credential, "PUT", "a?owner=nightly&reason=tests", id)
			own := strings.ReplaceAll(hold.text, fmt.Sprintf("%q", hold.Handle), "") // its own
			fmt.Fprintln(&out, own)
			for _, method := range []string{"PUT", "POST", "DELETE", "GET", "PATCH", "CONNECT"} {
				for _, handle := range []string{id, id + ".1.1.1.1000", id + ".1.1.1", id + " ", "short" + id[:3]} {
					for _, path := range []string{"a", "a?handle=" + id, "a?wait=" + id, "a?wait=1ms&ttl=1s", "", "?name=b"} {
						a := simple(t, url, credential, method, path, handle)
						fmt.Fprintln(&out, strings.ReplaceAll(a.text, fmt.Sprintf("%q", a.Handle), ""))
					}
				}
			}
			for _, q := range []struct {
				path string
				ask  any
			}{
				{api.Enter, &api.EnterRequest{Claim: c}}, {api.Await, &api.AwaitRequest{Claim: c, Within: 1}}, {api.Await, &api.AwaitRequest{Claim: c}},
				{api.Renew, &api.RenewRequest{Claims: []api.Claim{c, {ID: id}}}}, {api.List, &api.ListRequest{}},
				{api.Break, &api.BreakRequest{Name: "b", Record: []byte(why)}}, {api.Leave, &api.LeaveRequest{Claim: c}},
				{api.Traits, &api.Nothing{}}, {api.Identity, &api.Nothing{}},
				{api.Enter, map[string]any{"claim": map[string]any{"id": 7, "name": id}}}, {api.Enter, []string{id}},
			} {
				_, text := contract(t, url, credential, q.path, q.ask)
				fmt.Fprintln(&out, text)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+api.Alerts, strings.NewReader(body(t, &api.AlertsRequest{Claims: []api.Claim{c}})))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", api.JSON)
			res, err := bearer(credential).RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			for lines := bufio.NewScanner(res.Body); lines.Scan() && lines.Text() != ""; { // an error, or the first event
				fmt.Fprintln(&out, lines.Text())
			}
		})
	}
	all.Wait()
	if len(n.of(server.Broke, server.Asked)) == 0 || len(n.of(server.Took)) == 0 || len(n.of(server.Refused)) == 0 {
		t.Errorf("the storm made too few events: %+v", n.events)
	}
	events, err := json.Marshal(n.events)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		for line := range strings.Lines(out.text.String() + string(events)) {
			if strings.Contains(line, secret) {
				t.Errorf("%s is in %s", secret, line)
			}
		}
	}
}

// The page and Consul's API are audited as well: a break by the page has its reason, a login in vain is a refusal, and whoever
// has logged in is no stranger.
func TestPageIsAudited(t *testing.T) {
	var n notebook
	d := newDoor(map[string]server.Right{"ops": everything})
	f := newFake()
	_, url := start(t, f, &server.Options{Authenticate: d.authenticate, Audit: n.take, Page: true, Consul: true, Keys: replicaKeys})
	held := simple(t, url, "ops", "PUT", "a?owner=nightly", "")
	ask := func(method, path, text, cookie string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Set("Content-Type", api.JSON); cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	in := ask("POST", "/page/login", `{"token":"ops"}`, "")
	if in.StatusCode != 200 || len(in.Cookies()) != 1 {
		t.Fatalf("the login gets %s", in.Status)
	}
	cookie := in.Cookies()[0].Name + "=" + in.Cookies()[0].Value
	ask("GET", "/", "", "")
	ask("GET", "/", "", cookie)
	ticket := inStore(t, f, "a")[0].Ticket
	ask("POST", "/page/break", fmt.Sprintf(`{"name":"a","id":"%d","reason":"stuck since noon"}`, ticket), cookie)
	if got := n.of(server.Refused); len(got) != 0 {
		t.Errorf("whoever has logged in, or may do so, is refused: %+v", got)
	}
	if got := n.of(server.Broke); len(got) != 2 || got[0].By.Reason != "stuck since noon" || got[0].Principal != "ops" || got[1].Outcome != "done" ||
		got[1].Ticket != held.Token || got[1].Call != "POST /page/break" || got[1].Request == "" {
		t.Errorf("the break by the page is %+v", got)
	}
	ask("POST", "/page/login", `{"token":"a-secret"}`, "")
	ask("POST", "/page/break", `{"name":"a","id":"1","reason":"x"}`, "")
	ask("GET", "/page/events", "", strings.Replace(cookie, "=", "=A", 1))
	ask("PUT", "/v1/kv/a-secret?acquire=a-secret", "", "")
	ask("GET", "/v1/agent/self", "", "")
	var calls []string
	for _, e := range n.of(server.Refused) {
		calls = append(calls, e.Call)
		if e.Code != api.CodeUnauthenticated || strings.Contains(fmt.Sprint(e), "secret") {
			t.Errorf("a refusal is %+v", e)
		}
	}
	if want := "POST /page/login, POST /page/break, GET /page/events, PUT /v1/kv/, GET /v1/agent/self"; strings.Join(calls, ", ") != want {
		t.Errorf("%q are refused; want %s", calls, want)
	}
}

// inStore returns the claims of a name as the store keeps them.
func inStore(t *testing.T, f *fake, name string) []driver.ClaimInfo {
	t.Helper()
	list, err := f.List(t.Context(), &driver.Query{Name: name})
	if err != nil || len(list) != 1 {
		t.Fatalf("the store lists %+v, %v; want one name", list, err)
	}
	return list[0].Claims
}
