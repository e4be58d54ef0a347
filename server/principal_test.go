package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// door authenticates principals by their tokens, which a test may change.
type door struct {
	mu  sync.Mutex // guards the fields below
	of  map[string]*server.Principal
	err error
}

func (d *door) authenticate(r *http.Request) (*server.Principal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[r.Header.Get("Authorization")], d.err
}

func (d *door) revoke(principal string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, "Bearer "+principal)
}

// newDoor returns a door for principals with one right each. Each token is the principal's name.
func newDoor(rights map[string]server.Right) *door {
	d := &door{of: map[string]*server.Principal{}}
	for name, right := range rights {
		d.of["Bearer "+name] = &server.Principal{Name: name, Rights: []server.Right{right}}
	}
	return d
}

// bearer sends requests with a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// guarded starts a server with a door, and returns its URL.
func guarded(t *testing.T, f *fake, d *door) string {
	t.Helper()
	_, url := start(t, f, &server.Options{Authenticate: d.authenticate})
	return url
}

// code returns the code of an error, or "" of another answer.
func code(answer []byte) string {
	var e struct{ Code string }
	line, _, _ := strings.Cut(string(answer), "\n")
	if json.Unmarshal([]byte(line), &e) != nil {
		return "no JSON"
	}
	return e.Code
}

// simple sends a request of the simple API by a principal.
func simple(t *testing.T, url, principal, method, path, handle string) said {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url+"/v1/locks/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if handle != "" {
		r.Header.Set("Stile-Handle", handle)
	}
	a, err := (&user{t, &http.Client{Transport: bearer(principal)}}).send(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// contract sends a request of the contract API by a principal, and returns its code and its text.
func contract(t *testing.T, url, principal, path string, q any) (string, string) {
	t.Helper()
	_, answer, err := postBy(t.Context(), &http.Client{Transport: bearer(principal)}, url+path, body(t, q))
	if err != nil {
		t.Fatal(err)
	}
	return code(answer), string(answer)
}

// opens sends a request of the contract API by a principal, and returns the answer, which may go on.
func opens(t *testing.T, url, principal, path string, q any) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body(t, q)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.JSON)
	res, err := bearer(principal).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

var everything = server.Right{Verbs: server.Verbs}

// Without valid credentials the server answers nothing, not even what it is, and asks no driver. If it cannot check
// credentials, the client may ask again.
func TestCredentialsAreNeeded(t *testing.T) {
	f := newFake()
	f.enter = func(context.Context, *driver.Claim) (driver.Place, error) {
		t.Error("a driver was asked")
		return driver.Place{}, driver.ErrGone
	}
	d := newDoor(map[string]server.Right{"ci": everything})
	url := guarded(t, f, d)
	for _, ways := range []struct {
		err    error
		status int
		code   string
	}{{nil, 401, api.CodeUnauthenticated}, {errors.New("secret path"), 503, "unreachable"}} {
		d.err = ways.err
		for _, path := range []string{"/", "/openapi.json", api.Watch + "?name=a", "/v1/locks/a"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
			r.RequestURI = ""
			r.Header.Set("Authorization", "Bearer not-this-one")
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			asks := res.Header.Get("WWW-Authenticate") == "Bearer"
			if res.StatusCode != ways.status || asks != (ways.status == 401) || strings.Contains(string(text), "secret") || strings.Contains(string(text), "not-this") {
				t.Errorf("%s = %d %s; want %d, and no secret", path, res.StatusCode, text, ways.status)
			}
		}
		if a := simple(t, url, "nobody", "PUT", "a", ""); a.status != ways.status || a.Code != ways.code {
			t.Errorf("PUT = %d %s; want %d %s", a.status, a.text, ways.status, ways.code)
		}
		if _, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)})); err == nil || driver.IsUnreachable(err) != (ways.err != nil) ||
			driver.OutcomeOf(err) == driver.OutcomeUnknown {
			t.Errorf("enter = %v (%v)", err, driver.OutcomeOf(err))
		}
	}
}

// Each request needs its right on exactly the name of the request, in each API.
func TestRights(t *testing.T) {
	d := newDoor(map[string]server.Right{
		"lock": {Verbs: []server.Verb{server.Lock}, Prefix: "ci/"}, "share": {Verbs: []server.Verb{server.Share}, Prefix: "ci/"},
		"read": {Verbs: []server.Verb{server.Read}, Prefix: "ci/"}, "break": {Verbs: []server.Verb{server.Break}, Prefix: "ci/"}, "none": {Prefix: "ci/"},
	})
	url := guarded(t, newFake(), d)
	n := 0
	whole := func(name string, weight, capacity int64) api.Claim {
		n++
		c := claim(fmt.Sprint("id", n), 0)
		c.Name, c.Weight, c.Capacity = name+fmt.Sprint(n), weight, capacity
		return c
	}
	requests := map[string]struct {
		may  []string
		path string
		ask  func(name string) any
	}{
		"enter":  {[]string{"lock"}, api.Enter, func(n string) any { return &api.EnterRequest{Claim: whole(n, driver.All, driver.All)} }},
		"permit": {[]string{"lock", "share"}, api.Enter, func(n string) any { return &api.EnterRequest{Claim: whole(n, 1, 2)} }},
		"all permits": {[]string{"lock"}, api.Enter, func(n string) any {
			return &api.EnterRequest{Claim: whole(n, 2, 2)}
		}},
		"await": {[]string{"lock", "share"}, api.Await, func(n string) any { return &api.AwaitRequest{Claim: whole(n, 1, 2), Within: 1} }},
		"leave": {[]string{"lock", "share"}, api.Leave, func(n string) any { return &api.LeaveRequest{Claim: whole(n, 1, 2)} }},
		"list":  {[]string{"read"}, api.List, func(n string) any { return &api.ListRequest{Name: n} }},
		"names": {[]string{"read"}, api.List, func(n string) any { return &api.ListRequest{Prefix: n} }},
		"break": {[]string{"break"}, api.Break, func(n string) any { return &api.BreakRequest{Name: n} }},
	}
	for what, q := range requests {
		for _, who := range []string{"lock", "share", "read", "break", "none"} {
			got, text := contract(t, url, who, q.path, q.ask("ci/a"))
			if refused := got == api.CodeForbidden; refused == slices.Contains(q.may, who) {
				t.Errorf("%s by %s = %s", what, who, text)
			}
			if got, text := contract(t, url, who, q.path, q.ask("prod/a")); got != api.CodeForbidden {
				t.Errorf("%s of another prefix by %s = %s; want forbidden", what, who, text)
			}
		}
	}
	for _, tt := range []struct {
		method, path, handle string
		may                  []string
	}{
		{"PUT", "a", "", []string{"lock"}},
		{"PUT", "b?shared=true", "", []string{"lock", "share"}},
		{"PUT", "c?of=2&permits=2", "", []string{"lock"}},
		{"POST", "d", myID + ".1.2147483647.2147483647.1000", []string{"lock"}},
		{"DELETE", "d", myID, []string{"lock", "share"}},
		{"GET", "d", "", []string{"read"}},
	} {
		for _, who := range []string{"lock", "share", "read", "break", "none"} {
			if a := simple(t, url, who, tt.method, "ci/"+tt.path, tt.handle); (a.status == 403) == slices.Contains(tt.may, who) {
				t.Errorf("%s %s by %s = %d %s", tt.method, tt.path, who, a.status, a.text)
			}
			if a := simple(t, url, who, tt.method, "prod/"+tt.path, tt.handle); a.status != 403 || a.Code != api.CodeForbidden {
				t.Errorf("%s %s of another prefix by %s = %d %s; want 403", tt.method, tt.path, who, a.status, a.text)
			}
		}
	}
}

// A batch is checked claim by claim, and a list name by name. Only a caller with the right to read sees who holds.
func TestRightsOfEachItem(t *testing.T) {
	d := newDoor(map[string]server.Right{
		"all": everything, "ci": {Verbs: []server.Verb{server.Lock, server.Read}, Prefix: "ci/"}, "blind": {Verbs: []server.Verb{server.Lock}},
	})
	url := guarded(t, newFake(), d)
	ours, others := named("ci/a", "x"), named("prod/a", "y")
	for _, q := range []struct {
		who string
		c   api.Claim
	}{{"ci", ours}, {"all", others}} {
		q.c.Record = []byte("who holds")
		if code, text := contract(t, url, q.who, api.Enter, &api.EnterRequest{Claim: q.c}); code != "" {
			t.Fatal(text)
		}
	}
	_, text := contract(t, url, "ci", api.Renew, &api.RenewRequest{Claims: []api.Claim{others, ours}})
	var a api.RenewAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Renewals) != 2 {
		t.Fatal(text)
	}
	if e := a.Renewals[0].Error; e == nil || e.Code != api.CodeForbidden || a.Renewals[1].Error != nil || a.Renewals[1].TTL == 0 {
		t.Errorf("renew = %s; want the first forbidden, the second renewed", text)
	}
	alerts := opens(t, url, "ci", api.Alerts, &api.AlertsRequest{Claims: []api.Claim{others}})
	if line, err := bufio.NewReader(alerts.Body).ReadBytes('\n'); err != nil || code(line) != api.CodeForbidden {
		t.Errorf("alerts begin with %s, %v; want forbidden", line, err)
	}
	_, text = contract(t, url, "ci", api.List, &api.ListRequest{})
	if !strings.Contains(text, `"ci/a"`) || strings.Contains(text, "prod/a") || !strings.Contains(text, `"end":true`) {
		t.Errorf("list = %s; want only ci/a", text)
	}
	for who, shown := range map[string]bool{"all": true, "blind": false} {
		c := named("prod/a", "of "+who)
		c.ID, c.Try = "z"+who, true
		_, text := contract(t, url, who, api.Enter, &api.EnterRequest{Claim: c})
		if strings.Contains(text, "blocker") != shown {
			t.Errorf("a claim of %s that does not enter gets %s", who, text)
		}
		if s := simple(t, url, who, "PUT", "prod/a", ""); s.Code != "held" || (s.Holder != nil) != shown {
			t.Errorf("PUT by %s = %s", who, s.text)
		}
	}
}

// Trap: a principal with the handle, id, client and owner of another principal has no part in its claim.
func TestClaimsAreTheirPrincipals(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything, "thief": everything})
	f := newFake()
	f.leave = nil
	url := guarded(t, f, d)
	mine := simple(t, url, "ci", "PUT", "a", myID)
	for method, want := range map[string]int{"PUT": 410, "POST": 410, "DELETE": 410} {
		if a := simple(t, url, "thief", method, "a", mine.Handle); a.status != want {
			t.Errorf("%s with another's handle = %d %s; want %d", method, a.status, a.text, want)
		}
	}
	if a := simple(t, url, "thief", "PUT", "a", myID); a.Code != "held" {
		t.Errorf("PUT with another's id = %d %s; want held", a.status, a.text)
	}
	if a := simple(t, url, "ci", "POST", "a", mine.Handle); a.status != 200 || a.Token != mine.Token {
		t.Errorf("POST = %d %s; want the token %s", a.status, a.text, mine.Token)
	}
	job := named("b", "run1")
	job.Client, job.Owner, job.Reclaim = "c", "nightly", true
	if code, text := contract(t, url, "ci", api.Enter, &api.EnterRequest{Claim: job}); code != "" {
		t.Fatal(text)
	}
	again := job
	again.ID, again.Client, again.Try = "run2", "other", true
	if _, text := contract(t, url, "thief", api.Enter, &api.EnterRequest{Claim: again}); !strings.Contains(text, `"holds":false`) {
		t.Errorf("another's job enters with %s; want that it does not hold", text)
	}
	if _, text := contract(t, url, "ci", api.Enter, &api.EnterRequest{Claim: again}); !strings.Contains(text, `"holds":true`) {
		t.Errorf("the job's next run enters with %s; want that it holds", text)
	}
}

// A revoked token ends long requests: the wait of a PUT, an await whose claim comes to hold, and the streams of a watch and of
// alerts at their next event.
func TestRevokedWhileItWaits(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything, "gone": everything})
	f := newFake()
	url := guarded(t, f, d)
	mine, other := simple(t, url, "ci", "PUT", "a", ""), simple(t, url, "ci", "PUT", "b", "")
	waiter, holder := named("b", "waiter"), named("c", "holder")
	for _, c := range []api.Claim{waiter, holder} {
		if code, text := contract(t, url, "gone", api.Enter, &api.EnterRequest{Claim: c}); code != "" {
			t.Fatal(text)
		}
	}
	waiting := make(chan struct{}, 100)
	f.await = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		waiting <- struct{}{}
		return f.Driver.Await(ctx, c)
	}
	alerts := opens(t, url, "gone", api.Alerts, &api.AlertsRequest{Claims: []api.Claim{holder}})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+api.Watch+"?name=a", nil)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := bearer("gone").RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	ended, awaited := make(chan said, 1), make(chan string, 1)
	go func() { ended <- simple(t, url, "gone", "PUT", "a?wait=1m", "") }()
	<-waiting
	go func() {
		_, text := contract(t, url, "gone", api.Await, &api.AwaitRequest{Claim: waiter, Within: time.Minute})
		awaited <- text
	}()
	<-waiting
	d.revoke("gone")
	simple(t, url, "ci", "DELETE", "a", mine.Handle)
	simple(t, url, "ci", "DELETE", "b", other.Handle)
	if a := <-ended; a.status != 401 || a.Token != "" {
		t.Errorf("the wait ends with %d %s; want 401", a.status, a.text)
	}
	if text := <-awaited; code([]byte(text)) != api.CodeUnauthenticated {
		t.Errorf("the await ends with %s; want unauthenticated", text)
	}
	if _, err := f.Break(t.Context(), &driver.BreakRequest{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	for what, stream := range map[string]*http.Response{"the watch": watch, "the stream of alerts": alerts} {
		text, err := io.ReadAll(stream.Body)
		if err != nil || !strings.Contains(string(text), api.EventEnd) || !strings.Contains(string(text), api.CodeUnauthenticated) || strings.Contains(string(text), "danger") {
			t.Errorf("%s ends with %s, %v; want unauthenticated", what, text, err)
		}
	}
}

// A revoked token also ends a wait that is kept together with others.
func TestRevokedInAHerd(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything, "gone": everything})
	f := newFake()
	url := guarded(t, f, d)
	mine := simple(t, url, "ci", "PUT", "a", "")
	waiting := make(chan struct{}, 100)
	f.await = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		waiting <- struct{}{}
		return f.Driver.Await(ctx, c)
	}
	first, second := make(chan said, 1), make(chan said, 1)
	go func() { first <- simple(t, url, "ci", "PUT", "a?wait=1m&ttl=1s", "") }()
	<-waiting
	go func() { second <- simple(t, url, "gone", "PUT", "a?wait=1m&ttl=1s", "") }()
	<-waiting
	d.revoke("gone")
	if a := <-second; a.status != 401 || a.Token != "" {
		t.Errorf("the wait ends with %d %s; want 401", a.status, a.text)
	}
	simple(t, url, "ci", "DELETE", "a", mine.Handle)
	if a := <-first; a.status != 200 {
		t.Errorf("the other wait ends with %d %s; want the lock", a.status, a.text)
	}
}

// With credentials the server answers other machines and proxies, but only for its own host names.
func TestHosts(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything})
	s := newServer(t, newFake(), &server.Options{Authenticate: d.authenticate, Hosts: []string{"locks.example"}})
	for host, want := range map[string]int{
		"locks.example:7845": 200, "LOCKS.example": 200, "locks.example.": 200, "10.0.0.7:7845": 200, "[fe80::1]:7845": 200, "localhost": 200,
		"evil.example": 403, "locks.example.evil.example": 403, "10.0.0.7.evil.example": 403, "": 403,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+api.Traits, strings.NewReader("{}"))
		r.Host, r.RemoteAddr = host, "10.0.0.9:1"
		r.Header.Set("Content-Type", api.JSON)
		r.Header.Set("X-Forwarded-For", "1.2.3.4")
		r.Header.Set("Authorization", "Bearer ci")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != want {
			t.Errorf("Host %q: %d %s; want %d", host, w.Code, w.Body, want)
		}
		r.TLS = &tls.ConnectionState{} // whose client has checked the name
		w = httptest.NewRecorder()
		r.Body = io.NopCloser(strings.NewReader("{}"))
		if s.ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("Host %q with TLS: %d %s; want 200", host, w.Code, w.Body)
		}
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w = httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("a page of another site, to %q: %d; want 403", host, w.Code)
		}
	}
}
