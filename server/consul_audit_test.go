package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server"
)

// A consulUser sends requests of Consul's API to a server.
type consulUser struct {
	*testing.T
	url string
}

// asks sends a request by a principal, and returns the status, the index and the text of the answer.
func (u *consulUser) asks(principal, method, path, body string) (status int, index, text string) {
	u.Helper()
	r, err := http.NewRequestWithContext(u.Context(), method, u.url+path, strings.NewReader(body))
	if err != nil {
		u.Fatal(err)
	}
	res, err := bearer(principal).RoundTrip(r)
	if err != nil {
		u.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		u.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("X-Consul-Index"), string(answer)
}

// gets is asks; it fails unless the answer has a status.
func (u *consulUser) gets(want int, principal, method, path, body string) (index, text string) {
	u.Helper()
	status, index, text := u.asks(principal, method, path, body)
	if status != want {
		u.Fatalf("%s %s by %s = %d %s; want %d", method, path, principal, status, text, want)
	}
	return index, text
}

// opens makes a session of a principal, and returns its id.
func (u *consulUser) opens(principal string) string {
	u.Helper()
	_, text := u.gets(200, principal, "PUT", "/v1/session/create", `{"Name": "nightly", "TTL": "10s"}`)
	_, id, _ := strings.Cut(text, `:"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// Each refusal of Consul's API for lack of a right has one event, with the name of the lock.
func TestConsulRefusalsAreAudited(t *testing.T) {
	var n notebook
	d := newDoor(map[string]server.Right{
		"ann": {Verbs: []server.Verb{server.Lock, server.Read}, Prefix: "a/"}, "bob": everything, "eve": {Verbs: []server.Verb{server.Break}},
	})
	_, url := start(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take, Consul: true, Keys: replicaKeys})
	u := &consulUser{t, url}
	s := u.opens("ann")
	u.gets(200, "ann", "PUT", "/v1/kv/a/x?acquire="+s, "")
	if held := simple(t, url, "ann", "PUT", "a/permits?of=2", ""); held.status != 200 {
		t.Fatal(held.text)
	}
	index, _ := u.gets(200, "bob", "GET", "/v1/kv/a/permits/.lock", "")
	for _, tt := range []struct{ principal, method, path, body, name, message string }{
		{"eve", "PUT", "/v1/session/create", `{"TTL": "10s"}`, "", "no right to lock any name"},
		{"eve", "GET", "/v1/session/list", "", "", "no right to lock any name"},
		{"eve", "GET", "/v1/kv/a/x", "", "a/x", "no right to lock or read"},
		{"eve", "GET", "/v1/kv/a?recurse", "", "a", "no right to lock or read"},
		{"eve", "DELETE", "/v1/kv/a/x", "", "a/x", "eve may not lock or share"},
		{"ann", "PUT", "/v1/kv/b?acquire=" + s, "", "b", `ann may not lock "b"`},
		{"bob", "PUT", "/v1/session/renew/" + s, "", "", "another principal"},
		{"bob", "PUT", "/v1/session/destroy/" + s, "", "", "another principal"},
		{"bob", "PUT", "/v1/kv/b?acquire=" + s, "", "", "another principal"},
		{"bob", "PUT", "/v1/kv/a/x?release=" + s, "", "a/x", "another principal"},
		{"bob", "DELETE", "/v1/kv/a/x", "", "a/x", "another principal"},
		{"bob", "PUT", "/v1/kv/a/permits/.lock?cas=" + index, `{"Limit": 2, "Holders": {}}`, "a/permits", "no session of yours"},
	} {
		before := len(n.of(server.Refused))
		status, _, text := u.asks(tt.principal, tt.method, tt.path, tt.body)
		events := n.of(server.Refused)[before:]
		part, _, _ := strings.Cut(strings.TrimPrefix(tt.path, "/v1/"), "/")
		if len(events) != 1 || status != http.StatusForbidden || !strings.Contains(text, tt.message) {
			t.Errorf("%s %s by %s = %d %s, with the events %+v; want 403 and one", tt.method, tt.path, tt.principal, status, text, events)
			continue
		}
		if e := events[0]; e.Principal != tt.principal || e.Name != tt.name || e.Code != api.CodeForbidden || e.Call != fmt.Sprintf("%s /v1/%s/", tt.method, part) ||
			!strings.Contains(e.Message, tt.message) || e.Request == "" {
			t.Errorf("%s %s has the event %+v", tt.method, tt.path, e)
		}
	}
}

// A claim of Consul's clients shows its principal: by each API of the service, by the store's own URL, and in the audit when it is
// broken.
func TestPrincipalOfConsul(t *testing.T) {
	var n notebook
	f := newFake()
	d := newDoor(map[string]server.Right{"ann": everything, "ops": everything})
	_, url := start(t, f, &server.Options{Authenticate: d.authenticate, Audit: n.take, Consul: true, Keys: replicaKeys})
	u := &consulUser{t, url}
	s := u.opens("ann")
	u.gets(200, "ann", "PUT", "/v1/kv/a?acquire="+s, "")
	if a := simple(t, url, "ops", "GET", "a", ""); !strings.Contains(a.text, `"principal":"ann"`) || !strings.Contains(a.text, `"owner":"nightly"`) {
		t.Errorf("GET = %s; want nightly as ann", a.text)
	}
	for _, name := range []string{"a", "consul-session/" + s} {
		if _, text := contract(t, url, "ops", api.List, &api.ListRequest{Name: name}); !strings.Contains(text, `"principal":"ann"`) {
			t.Errorf("the list of %s = %s; want the principal ann", name, text)
		}
		if h := record.Read(inStore(t, f, name)[0].Record); h.Principal != "ann" || h.Owner != "nightly" {
			t.Errorf("the store has %s for %+v; want nightly as ann", name, h)
		}
	}
	if code, text := contract(t, url, "ops", api.Break, &api.BreakRequest{Name: "a"}); code != "" {
		t.Fatal(text)
	}
	if e := n.of(server.Broke)[1]; e.Of == nil || e.Of.Principal != "ann" || e.Principal != "ops" {
		t.Errorf("the event of the break is %+v of %+v; want one of ann's claim", e, e.Of)
	}
	u.gets(200, "ann", "PUT", "/v1/kv/b?acquire="+s, "") // the front reads its records as before
	u.gets(200, "ann", "PUT", "/v1/session/renew/"+s, "")
}

// Locks that Consul's clients take and release have events, and so has the end of a session's hold by another program of its
// principal.
func TestHoldsOfConsulAreAudited(t *testing.T) {
	var n notebook
	d := newDoor(map[string]server.Right{"ann": everything})
	_, url := start(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take, Consul: true, Keys: replicaKeys})
	u := &consulUser{t, url}
	for i, tt := range []struct{ method, path, call string }{
		{"PUT", "/v1/kv/a/.lock?release=SESSION", "PUT /v1/kv/"},
		{"DELETE", "/v1/kv/a/.lock", "DELETE /v1/kv/"},
		{"PUT", "/v1/session/destroy/SESSION", "PUT /v1/session/"},
	} {
		s := u.opens("ann")
		u.gets(200, "ann", "PUT", "/v1/kv/a/.lock?acquire="+s, "")
		u.gets(200, "ann", tt.method, strings.ReplaceAll(tt.path, "SESSION", s), "")
		took, released := n.of(server.Took), n.of(server.Released)
		if len(took) != i+1 || len(released) != i+1 {
			t.Fatalf("%s %s: took %+v, released %+v; want %d each", tt.method, tt.path, took, released, i+1)
		}
		in, out := took[i], released[i]
		if in.Name != "a" || in.Principal != "ann" || in.By == nil || in.By.Owner != "nightly" || in.Ticket == "" || out.Name != "a" || out.Principal != "ann" ||
			out.Ticket != in.Ticket || out.Call != tt.call || out.Request == in.Request {
			t.Errorf("%s %s: took %+v by %+v, released %+v", tt.method, tt.path, in, in.By, out)
		}
	}
}
