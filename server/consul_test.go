package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// replicaKeys is the secret of the replicas of tests.
var replicaKeys = [][]byte{[]byte(strings.Repeat("k", 32))}

// put sends a request as Consul's clients do.
func put(ctx context.Context, t *testing.T, url, token, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("X-Consul-Token", token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// Consul's API is answered only with a key, and only within a caller's rights. Its clients send their token in a header of
// their own.
func TestConsulCallers(t *testing.T) {
	f := newFake()
	d := newDoor(map[string]server.Right{
		"eve": {Verbs: []server.Verb{server.Read}}, "ann": {Verbs: []server.Verb{server.Lock}, Prefix: "a/"},
	})
	_, url := start(t, f, &server.Options{Authenticate: d.authenticate, Consul: true, Keys: replicaKeys})
	const wish = `{"TTL": "10s"}`
	if status, text := put(t.Context(), t, url+"/v1/session/create", "", wish); status != http.StatusUnauthorized {
		t.Errorf("a session without a token = %d %s", status, text)
	}
	if status, text := put(t.Context(), t, url+"/v1/session/create", "eve", wish); status != http.StatusForbidden {
		t.Errorf("a session of who may only read = %d %s", status, text)
	}
	status, text := put(t.Context(), t, url+"/v1/session/create", "ann", wish)
	_, id, _ := strings.Cut(text, `:"`)
	id, _, _ = strings.Cut(id, `"`)
	if status != http.StatusOK || id == "" {
		t.Fatalf("a session = %d %s", status, text)
	}
	for path, want := range map[string]int{
		"/v1/kv/a/b//c?acquire=" + id: 200, "/v1/kv/b?acquire=" + id: 403, "/v1/session/renew/" + id: 200,
	} {
		if status, text := put(t.Context(), t, url+path, "ann", ""); status != want {
			t.Errorf("%s = %d %s; want %d", path, status, text, want)
		}
	}
	if status, text := put(t.Context(), t, url+"/v1/kv/a/d?acquire="+id, "ann", strings.Repeat("x", 65<<10)); status != 413 {
		t.Errorf("a body of 65 KiB = %d %s", status, text)
	}
	queues, err := f.List(t.Context(), &driver.Query{Prefix: "a/"})
	if err != nil || len(queues) != 1 || queues[0].Name != "a/b//c" {
		t.Errorf("the locks are %+v, %v; want a/b//c", queues, err)
	}
	_, without := start(t, newFake(), nil)
	if status, text := put(t.Context(), t, without+"/v1/session/renew/x", "", ""); status != http.StatusNotFound {
		t.Errorf("a renewal by a server without a key = %d %s", status, text)
	}
	if _, err := server.New(f, &server.Options{Consul: true}); err == nil {
		t.Error("Consul's API without a key")
	}
}

// A query of Consul's clients that waits hears of a key, and does not outlast the waits of its server.
func TestConsulWaits(t *testing.T) {
	s, url := start(t, newFake(), &server.Options{Consul: true, Keys: replicaKeys})
	answered := make(chan string, 1)
	go func() {
		res, err := http.Get(url + "/v1/kv/a?index=1")
		if err != nil {
			answered <- err.Error()
			return
		}
		res.Body.Close()
		answered <- res.Status + " at " + res.Header.Get("X-Consul-Index")
	}()
	s.EndWaits()
	if got := <-answered; got != "404 Not Found at 1" {
		t.Errorf("a query at the end of the waits = %s", got)
	}
}

// Queries of Consul's clients count as requests that wait. One too many is cut short: its client would take a refusal for the
// loss of its lock.
func TestConsulQueriesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxWaits: 2, Consul: true, Keys: replicaKeys})
		ask := func() <-chan time.Duration {
			took := make(chan time.Duration, 1)
			go func() {
				began := time.Now()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inBubble+"/v1/kv/a?index=1&wait=1m", nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := (&http.Client{Transport: l.by}).Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				if took <- time.Since(began); res.StatusCode != http.StatusNotFound {
					t.Errorf("a query = %s", res.Status)
				}
			}()
			synctest.Wait()
			return took
		}
		first, second := ask(), ask()
		if d := <-second; d != time.Second {
			t.Errorf("a query too many waits %v; want a second", d)
		}
		if d := <-first; d != time.Minute {
			t.Errorf("the first query waits %v; want a minute", d)
		}
		if d := <-ask(); d != time.Minute {
			t.Errorf("a query after the others waits %v; want a minute", d)
		}
	})
}

// consulGets asks a server in a bubble for a path by a principal, and returns the status and the text of the answer.
func consulGets(t *testing.T, by http.RoundTripper, principal, path string) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inBubble+path, nil)
	if err != nil {
		return err.Error()
	}
	res, err := (&http.Client{Transport: as{principal, by}}).Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return res.Status + string(text)
}

// Lists of Consul's clients count with the others. One too many waits: its client would take a refusal for the loss of its lock.
func TestConsulListsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := slow{newFake(), make(chan struct{}), make(chan struct{})}
		door := newDoor(map[string]server.Right{"ci": everything, "ops": everything})
		s := newServer(t, d, &server.Options{Authenticate: door.authenticate, Consul: true, Keys: replicaKeys})
		l := &limited{t, d.fake, s, servingBy(t, s)}
		answers := make(chan string, 100)
		ask := func(who, path string) { go func() { answers <- consulGets(t, l.by, who, path) }() }
		waits := func(who, path string) {
			t.Helper()
			ask(who, path)
			synctest.Wait()
			select {
			case <-d.begun:
				t.Errorf("a list of %s too many reaches the store", who)
			case a := <-answers:
				t.Errorf("a list of %s too many = %s; want that it waits", who, a)
			default:
			}
		}
		for range server.MaxLists * 3 / 8 {
			for _, path := range []string{"/v1/kv/?recurse", "/v1/session/list"} {
				ask("ci", path)
				<-d.begun
			}
		}
		waits("ci", "/v1/kv/?recurse")
		waits("ci", "/v1/session/list")
		for range server.MaxLists / 4 {
			ask("ops", "/v1/kv/?recurse")
			<-d.begun
		}
		waits("ops", "/v1/kv/?recurse")
		if status, text := l.ask("ops", api.List, &api.ListRequest{}); status != http.StatusTooManyRequests {
			t.Errorf("a list beside those of Consul's clients = %d %s; want 429", status, text)
		}
		close(d.may)
		for range 3 {
			<-d.begun
		}
		for range server.MaxLists + 3 {
			if a := <-answers; a != "404 Not Found" && a != "200 OK[]" {
				t.Errorf("a list = %s; want that it finds nothing", a)
			}
		}
	})
}

// A list that its client does not read takes its place for 30 s.
func TestUnreadListOfConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		by := servingBy(t, newServer(t, f, &server.Options{Consul: true, Keys: replicaKeys}))
		for i := range 100 {
			entered(t, f, named(fmt.Sprint("many", i), "x"))
		}
		for range server.MaxLists {
			conn, err := by.DialContext(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET /v1/kv/?recurse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		begin := time.Now()
		if a := consulGets(t, by, "", "/v1/kv/?recurse"); !strings.HasPrefix(a, "200 OK") || time.Since(begin) != 30*time.Second {
			t.Errorf("a list beside unread ones = %.100s after %v; want one after 30 s", a, time.Since(begin))
		}
	})
}

// Consul's clients keep a lock over an answer with status 500 only. So they get it if the service cannot check credentials for
// a moment, before a request or while it waits.
func TestConsulClientsAskAgain(t *testing.T) {
	for name, failing := range map[string]int64{"before": 1, "while it waits": 2} {
		t.Run(name, func(t *testing.T) {
			d, calls := newDoor(map[string]server.Right{"ann": everything}), new(atomic.Int64)
			_, url := start(t, newFake(), &server.Options{Consul: true, Keys: replicaKeys, Authenticate: func(r *http.Request) (*server.Principal, error) {
				if calls.Add(1) == failing {
					return nil, errors.New("the tokens cannot be read")
				}
				return d.authenticate(r)
			}})
			res, err := (&http.Client{Transport: bearer("ann")}).Get(url + "/v1/kv/a?index=1&wait=1ms")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusInternalServerError || !strings.Contains(string(text), "cannot check credentials now") {
				t.Errorf("the query = %s %s, %v; want 500", res.Status, text, err)
			}
		})
	}
}
