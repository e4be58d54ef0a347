package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// newPage returns a server with a page; d may be nil.
func newPage(t *testing.T, f driver.Driver, d *door, keys ...[]byte) *server.Server {
	t.Helper()
	o := &server.Options{Page: true, Keys: keys}
	if d != nil {
		o.Authenticate = d.authenticate
	}
	return newServer(t, f, o)
}

// visit sends a request as a browser on this machine does.
func visit(t *testing.T, s *server.Server, method, path, text string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:7845"+path, strings.NewReader(text))
	r.RemoteAddr = "127.0.0.1:1234"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", api.JSON)
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// A firstPage is the data in the page's HTML.
type firstPage struct {
	Store          string
	Login, Foreign bool
	Event          *struct {
		Queues []struct {
			Queue struct {
				Name   string
				Claims []struct{ ID, Owner string }
			}
		}
		Viewer struct {
			Name   string
			Blind  bool
			Breaks []string
		}
	}
}

// names are the names on the page.
func (f *firstPage) names() (all []string) {
	if f.Event != nil {
		for _, q := range f.Event.Queues {
			all = append(all, q.Queue.Name)
		}
	}
	return all
}

// open loads the page.
func open(t *testing.T, s *server.Server, headers ...string) *firstPage {
	t.Helper()
	w := visit(t, s, http.MethodGet, "/", "", headers...)
	_, data, _ := strings.Cut(w.Body.String(), `id="first">`)
	data, _, _ = strings.Cut(data, "</script>")
	f := &firstPage{}
	if err := json.Unmarshal([]byte(data), f); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("the page is %d %v %s, %v", w.Code, w.Header(), w.Body, err)
	}
	return f
}

// hold takes a lock in a store.
func hold(t *testing.T, d driver.Driver, name, record string) driver.Place {
	t.Helper()
	p, err := d.Enter(t.Context(), &driver.Claim{Name: name, ID: "id of " + record, Client: "c", Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour, Record: record})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The HTML has the first snapshot; no text in it, not even a name, becomes a script; and no script, style or frame of
// anybody else may be in it.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newPage(t, f, nil)
		const evil = "</script><script>alert(1)</script>"
		hold(t, f, evil, `{"owner":"</script>"}`)
		p := open(t, s)
		if got := p.names(); len(got) != 1 || got[0] != evil || p.Event.Queues[0].Queue.Claims[0].Owner != "</script>" || p.Store == "" {
			t.Errorf("the page has %+v", p)
		}
		if b := p.Event.Viewer.Breaks; p.Login || len(b) != 1 || b[0] != "" {
			t.Errorf("without credentials the viewer is %+v", p.Event.Viewer)
		}
		for _, path := range []string{"/", "/page/page.js", "/page/page.css", "/page/recent?name=a", "/page/nothing"} {
			w := visit(t, s, http.MethodGet, path, "")
			policy := w.Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") || strings.Contains(policy, "unsafe") ||
				!strings.Contains(policy, "frame-ancestors 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s has %v", path, w.Header())
			}
			if (w.Code == 404) != (path == "/page/nothing") || strings.Contains(w.Body.String(), "<script>alert") {
				t.Errorf("%s = %d %s", path, w.Code, w.Body)
			}
		}
		w := visit(t, s, http.MethodGet, "/page/page.js", "")
		if again := visit(t, s, http.MethodGet, "/page/page.js", "", "If-None-Match", w.Header().Get("ETag")); again.Code != 304 {
			t.Errorf("the unchanged script = %d; want 304", again.Code)
		}
		if w := visit(t, newServer(t, newFake(), nil), http.MethodGet, "/", ""); w.Code != 404 {
			t.Errorf("without a page / = %d; want 404", w.Code)
		}
	})
}

// The page is refused to all that the service refuses, and to pages of other sites. Only a link from another site leads here.
func TestPageIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newPage(t, f, nil)
		p := hold(t, f, "a", "")
		breaks := fmt.Sprintf(`{"name":"a","id":"%d","reason":"why"}`, p.Ticket)
		for _, tt := range []struct {
			method, path, text string
			headers            []string
			want               int
		}{
			{"GET", "/", "", []string{"X-Forwarded-For", "1.2.3.4"}, 403},
			{"GET", "/", "", []string{"Sec-Fetch-Site", "cross-site"}, 200},
			{"GET", "/page/recent?name=a", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"GET", "/page/events", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"GET", "/page/events", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
			{"GET", "/page/recent?name=a", "", []string{"Sec-Fetch-Site", "same-origin"}, 200},
			{"POST", "/page/break", breaks, []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"POST", "/page/break", breaks, []string{"Origin", "http://evil.example"}, 403},
			{"POST", "/page/break", breaks, []string{"Content-Type", "text/plain"}, 415},
			{"GET", "/page/break", "", nil, 404},
			{"POST", "/", "{}", nil, 404},
			{"POST", "/page/break", `{"name":"a","id":"0","reason":"why"}`, nil, 400},
			{"POST", "/page/break", fmt.Sprintf(`{"name":"a","id":"%d","reason":" "}`, p.Ticket), nil, 400},
			{"POST", "/page/break", fmt.Sprintf(`{"name":"a","id":"%d","reason":"%0600d"}`, p.Ticket, 0), nil, 400},
			{"POST", "/page/break", `{"name":"a","id":"77","reason":"why"}`, nil, 410},
			{"POST", "/page/break", breaks, []string{"Sec-Fetch-Site", "same-origin"}, 200},
			{"POST", "/page/break", breaks, nil, 410},
		} {
			if w := visit(t, s, tt.method, tt.path, tt.text, tt.headers...); w.Code != tt.want {
				t.Errorf("%s %s %s, %v = %d %s; want %d", tt.method, tt.path, tt.text, tt.headers, w.Code, w.Body, tt.want)
			}
		}
	})
}

// A viewer logs in with its token. The cookie that it gets is for the page only, hides the token, and is worth what the token
// is worth, for 12 hours at most.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		d := newDoor(map[string]server.Right{"ops": everything, "ci": {Verbs: []server.Verb{server.Read}, Prefix: "ci/"}, "blind": {Verbs: []server.Verb{server.Lock}}})
		s := newPage(t, f, d)
		hold(t, f, "ci/a", "")
		hold(t, f, "prod/a", "")
		for _, headers := range [][]string{nil, {"Cookie", "__Host-stile=abc"}, {"Authorization", "Bearer thief"}} {
			if p := open(t, s, headers...); !p.Login || p.Foreign || p.Event != nil || p.Store != "" {
				t.Errorf("a stranger with %v gets %+v", headers, p)
			}
			for _, path := range []string{"/page/events", "/page/recent?name=a"} {
				if w := visit(t, s, http.MethodGet, path, "", headers...); w.Code != 401 {
					t.Errorf("a stranger gets %s = %d", path, w.Code)
				}
			}
			if w := visit(t, s, http.MethodPost, "/page/break", `{"name":"a","id":"1","reason":"why"}`, headers...); w.Code != 401 {
				t.Errorf("a stranger breaks: %d", w.Code)
			}
		}
		if p := open(t, s, "Sec-Fetch-Site", "cross-site"); !p.Login || !p.Foreign {
			t.Errorf("by a link of another site there is %+v; want that it asks again", p)
		}
		if w := visit(t, s, http.MethodGet, "/page/page.js", ""); w.Code != 200 {
			t.Errorf("a stranger gets the script of the login = %d", w.Code)
		}
		for text, want := range map[string]int{`{"token":"thief"}`: 401, `{"token":""}`: 400, `{"token":"` + strings.Repeat("x", 3000) + `"}`: 400} {
			if w := visit(t, s, http.MethodPost, "/page/login", text); w.Code != want || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "thief") {
				t.Errorf("a login with %.30s = %d %s; want %d", text, w.Code, w.Body, want)
			}
		}
		w := visit(t, s, http.MethodPost, "/page/login", `{"token":"ci"}`)
		cookies := w.Result().Cookies()
		if w.Code != 200 || len(cookies) != 1 {
			t.Fatalf("a login = %d %s", w.Code, w.Body)
		}
		c := cookies[0]
		if c.Name != "__Host-stile" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*3600 {
			t.Errorf("the cookie is %+v", c)
		}
		cookie := []string{"Cookie", c.Name + "=" + c.Value}
		if p := open(t, s, cookie...); len(p.names()) != 1 || p.names()[0] != "ci/a" || p.Event.Viewer.Name != "ci" || p.Event.Viewer.Breaks != nil {
			t.Errorf("ci sees %+v", p.Event)
		}
		for path, want := range map[string]int{"/page/recent?name=ci/a": 200, "/page/recent?name=prod/a": 403, "/v1/locks/ci/a": 401, "/openapi.json": 401} {
			if w := visit(t, s, http.MethodGet, path, "", cookie...); w.Code != want {
				t.Errorf("with the cookie %s = %d %s; want %d", path, w.Code, w.Body, want)
			}
		}
		if w := visit(t, s, http.MethodPost, "/page/break", `{"name":"ci/a","id":"1","reason":"why"}`, cookie...); w.Code != 403 {
			t.Errorf("ci breaks: %d %s; want 403", w.Code, w.Body)
		}
		if p := open(t, s, "Authorization", "Bearer blind"); p.Login || len(p.names()) != 0 || !p.Event.Viewer.Blind {
			t.Errorf("a viewer without the right to read sees %+v", p.Event)
		}
		if p := open(t, newPage(t, newFake(), d), cookie...); !p.Login {
			t.Error("a cookie is worth something at a server with another key")
		}
		again := visit(t, s, http.MethodPost, "/page/login", `{"token":"ci"}`).Result().Cookies()[0]
		if again.Value == c.Value {
			t.Error("two logins have one cookie")
		}
		if out := visit(t, s, http.MethodPost, "/page/logout", `{}`, cookie...).Result().Cookies(); len(out) != 1 || out[0].Value != "" || out[0].MaxAge >= 0 {
			t.Errorf("a logout gives %v", out)
		}
		d.err = errors.New("secret path")
		if w := visit(t, s, http.MethodGet, "/", "", cookie...); w.Code != 503 || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("while credentials cannot be checked / = %d %s", w.Code, w.Body)
		}
		d.err = nil
		time.Sleep(12*time.Hour - 2*time.Second)
		if p := open(t, s, cookie...); p.Login {
			t.Error("the login ends early")
		}
		time.Sleep(4 * time.Second)
		if p := open(t, s, cookie...); !p.Login {
			t.Error("the login does not end")
		}
		d.revoke("ci")
		if p := open(t, s, "Cookie", again.Name+"="+again.Value); !p.Login {
			t.Error("the login outlives its token")
		}
	})
}

// A login at one replica is one at all replicas with the same keys, also while the first key is exchanged for a new one: the new
// key becomes the second one everywhere, then the first.
func TestLoginAtReplicas(t *testing.T) {
	older, newer := bytes.Repeat([]byte("o"), 32), bytes.Repeat([]byte("n"), 32)
	f, d := newFake(), newDoor(map[string]server.Right{"ops": everything})
	p := hold(t, f, "a", "")
	first := newPage(t, f, d, older)
	login := func(s *server.Server) []string {
		t.Helper()
		w := visit(t, s, http.MethodPost, "/page/login", `{"token":"ops"}`)
		if w.Code != 200 {
			t.Fatalf("a login = %d %s", w.Code, w.Body)
		}
		c := w.Result().Cookies()[0]
		return []string{"Cookie", c.Name + "=" + c.Value}
	}
	cookie := login(first)
	for what, keys := range map[string][][]byte{
		"the same key": {older}, "a new second key": {older, newer}, "a new first key": {newer, older},
	} {
		if p := open(t, newPage(t, f, d, keys...), cookie...); p.Login || len(p.names()) != 1 {
			t.Errorf("with %s another replica shows %+v", what, p)
		}
	}
	rotated := newPage(t, f, d, newer, older)
	if p := open(t, newPage(t, f, d, older, newer), login(rotated)...); p.Login {
		t.Error("a cookie of the new key is nothing at a replica that has it as its second")
	}
	if w := visit(t, rotated, http.MethodPost, "/page/break", fmt.Sprintf(`{"name":"a","id":"%d","reason":"why"}`, p.Ticket), cookie...); w.Code != 200 {
		t.Errorf("a break at another replica = %d %s", w.Code, w.Body)
	}
	synctest.Test(t, func(t *testing.T) { // its clock is in the year 2000
		if p := open(t, newPage(t, newFake(), d, older), cookie...); !p.Login {
			t.Error("a login lasts longer because the clock was set back")
		}
	})
	for what, keys := range map[string][][]byte{"another key": {newer}, "a key of its own": nil} {
		if p := open(t, newPage(t, f, d, keys...), cookie...); !p.Login {
			t.Errorf("a cookie is worth something at a server with %s", what)
		}
	}
	if _, err := server.New(f, &server.Options{Page: true, Keys: [][]byte{older, older[:31]}}); err == nil || !strings.Contains(err.Error(), "number 2 has 31") {
		t.Errorf("a short key = %v", err)
	}
}

// asked is a store that notes who asked for a break, and why.
type asked struct {
	*memory.Driver
	record string
}

func (a *asked) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	a.record = b.Record
	return a.Driver.Break(ctx, b)
}

// The page shows who broke a claim and why, and the store gets both, for the claim's client.
func TestPageBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &asked{Driver: memory.New()}
		s := newPage(t, f, newDoor(map[string]server.Right{"ops": everything}))
		p := hold(t, f, "a", `{"owner":"nightly"}`)
		login := []string{"Authorization", "Bearer ops"}
		if first := open(t, s, login...); first.Event.Queues[0].Queue.Claims[0].ID != fmt.Sprint(p.Ticket) {
			t.Errorf("the claim is %+v", first.Event.Queues[0].Queue.Claims[0])
		}
		if w := visit(t, s, http.MethodPost, "/page/break", fmt.Sprintf(`{"name":"a","id":"%d","reason":" it hangs "}`, p.Ticket), login...); w.Code != 200 {
			t.Fatalf("break = %d %s", w.Code, w.Body)
		}
		if h := record.Read(f.record); h.Owner != "ops" || h.Reason != "it hangs" {
			t.Errorf("the store gets %+v; want who breaks and why", h)
		}
		time.Sleep(2 * time.Second)
		if first := open(t, s, login...); len(first.names()) != 0 {
			t.Errorf("after the break there is %v", first.names())
		}
		var a struct {
			Ends []struct {
				Owner, How string
				Broken     map[string]string
			}
		}
		w := visit(t, s, http.MethodGet, "/page/recent?name=a", "", login...)
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || len(a.Ends) != 1 || a.Ends[0].How != "broken" || a.Ends[0].Owner != "nightly" ||
			!maps.Equal(a.Ends[0].Broken, map[string]string{"by": "ops", "reason": "it hangs"}) {
			t.Errorf("the history is %s, %v", w.Body, err)
		}
	})
}

// The events go on with each snapshot, and all viewers together cost the store one List a second. The events end with the
// credentials, and with the server.
func TestPageEvents(t *testing.T) {
	f := newFake()
	d := newDoor(map[string]server.Right{"ops": everything, "gone": everything})
	s, url := start(t, f.Driver, &server.Options{Authenticate: d.authenticate, Page: true})
	watch := func(principal string) func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/page/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := bearer(principal).RoundTrip(r)
		if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != api.Events {
			t.Fatalf("%+v, %v", res, err)
		}
		lines := bufio.NewScanner(res.Body)
		return func() string {
			for lines.Scan() {
				if line := lines.Text(); strings.HasPrefix(line, "data: ") || strings.HasPrefix(line, "event: ") {
					return line
				}
			}
			return "the end"
		}
	}
	ops, gone := watch("ops"), watch("gone")
	if line := ops(); !strings.Contains(line, `"whole":true`) {
		t.Errorf("the first event is %s", line)
	}
	hold(t, f, "a", "")
	for line := ops(); !strings.Contains(line, `"name":"a"`); line = ops() {
		if !strings.Contains(line, `"now"`) {
			t.Fatalf("an event is %s", line)
		}
	}
	d.revoke("gone")
	line := gone()
	for strings.Contains(line, `"now"`) {
		line = gone()
	}
	if line != "event: end" || !strings.Contains(gone(), api.CodeUnauthenticated) || gone() != "the end" {
		t.Errorf("for a revoked token the events end with %s", line)
	}
	s.EndWaits()
	for line = ops(); strings.Contains(line, `"now"`); line = ops() {
	}
	if line != "event: end" || !strings.Contains(ops(), "unreachable") {
		t.Errorf("when the server ends the events end with %s", line)
	}
}

// A store that cannot list its queues is said to be such a one.
func TestPageWithoutLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPage(t, struct{ driver.Driver }{memory.New()}, nil)
		w := visit(t, s, http.MethodGet, "/", "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"failed":`) {
			t.Errorf("the page is %d %s", w.Code, w.Body)
		}
	})
}
