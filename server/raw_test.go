package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// raw sends a text over a connection to a server, and returns the status and the headers of the answer; 0 if it is no HTTP.
func raw(t *testing.T, url, text string) (status int, h http.Header) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil
	}
	res.Body.Close()
	return res.StatusCode, res.Header
}

// A recorder is a store that remembers the names that claims enter.
type recorder struct {
	*fake
	mu    sync.Mutex // guards names
	names []string
}

func newRecorder() *recorder {
	e := &recorder{fake: newFake()}
	e.fake.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.names = append(e.names, c.Name)
		return e.Driver.Enter(ctx, c)
	}
	return e
}

func (e *recorder) took() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := e.names
	e.names = nil
	return names
}

// Traps: a page of another site, a name that resolves to this machine, a proxy, and a path with two meanings, as the bytes of
// a connection. A request either takes exactly the lock that its path names, decoded once, or reaches no store. No answer
// lets another site read it.
func TestRawRequests(t *testing.T) {
	e := newRecorder()
	_, url := start(t, e, nil)
	const good = "\r\nHost: localhost\r\n\r\n"
	for _, tt := range []struct {
		name, text string
		status     int    // 0 for an answer that is no HTTP
		enters     string // a lock's name
	}{
		{"plain", "PUT /v1/locks/a HTTP/1.1" + good, 200, "a"},
		{"absolute", "PUT http://localhost/v1/locks/b HTTP/1.1" + good, 200, "b"},
		{"absolute, whose host counts", "PUT http://evil.example/v1/locks/a HTTP/1.1" + good, 403, ""},
		{"absolute, with another Host", "PUT http://localhost/v1/locks/c HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200, "c"},
		{"authority", "CONNECT localhost:80 HTTP/1.1" + good, 404, ""},
		{"asterisk", "OPTIONS * HTTP/1.1" + good, 200, ""},
		{"two hosts", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400, ""},
		{"no host", "PUT /v1/locks/a HTTP/1.1\r\n\r\n", 400, ""},
		{"host of an account", "PUT /v1/locks/a HTTP/1.1\r\nHost: evil@localhost\r\n\r\n", 400, ""},
		{"host with a dot", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost.\r\n\r\n", 403, ""},
		{"host below", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 403, ""},
		{"short address", "PUT /v1/locks/a HTTP/1.1\r\nHost: 127.1\r\n\r\n", 403, ""},
		{"any address", "PUT /v1/locks/a HTTP/1.1\r\nHost: 0.0.0.0\r\n\r\n", 403, ""},
		{"HTTP/1.0", "PUT /v1/locks/a HTTP/1.0" + good, 403, ""},
		{"HTTP/1.0, absolute", "PUT http://localhost/v1/locks/a HTTP/1.0\r\n\r\n", 403, ""},
		{"HTTP/0.9", "PUT /v1/locks/a\r\n\r\n", 400, ""},
		{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403, ""},
		{"upgrade to HTTP/2", "PUT /v1/locks/d HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
			200, "d"},
		{"page of another port", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:1\r\n\r\n", 403, ""},
		{"page without an origin", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 403, ""},
		{"page of the same site", "DELETE /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-site\r\n\r\n", 403, ""},
		{"preflight", "OPTIONS /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n", 405, ""},
		{"another method in a header", "GET /v1/locks/x HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: PUT\r\n\r\n", 200, ""},
		{"another method in a parameter", "GET /v1/locks/x?_method=PUT HTTP/1.1" + good, 400, ""},
		{"slashes", "PUT //v1/locks/a HTTP/1.1" + good, 404, ""},
		{"slashes, absolute", "PUT http://localhost//v1/locks/a HTTP/1.1" + good, 404, ""},
		{"dots before", "PUT /x/../v1/locks/a HTTP/1.1" + good, 404, ""},
		{"dots after", "PUT /v1/locks/../break HTTP/1.1" + good, 200, "../break"},
		{"encoded dots", "PUT /v1/locks/ci/%2e%2e/prod HTTP/1.1" + good, 200, "ci/../prod"},
		{"encoded slash", "PUT /v1/locks/ci%2Fe HTTP/1.1" + good, 200, "ci/e"},
		{"encoded twice", "PUT /v1/locks/ci%252Fe HTTP/1.1" + good, 200, "ci%2Fe"},
		{"encoded slash of the path", "PUT /v1%2Flocks%2Ff HTTP/1.1" + good, 200, "f"},
		{"encoded in the parameter", "PUT /v1/locks?name=ci%2Fg HTTP/1.1" + good, 200, "ci/g"},
		{"two names", "PUT /v1/locks/ci/a?name=prod HTTP/1.1" + good, 400, ""},
		{"two parameters", "PUT /v1/locks?name=ci&name=prod HTTP/1.1" + good, 400, ""},
		{"semicolon", "PUT /v1/locks?name=ci;name=prod HTTP/1.1" + good, 400, ""},
		{"zero byte", "PUT /v1/locks/a%00b HTTP/1.1" + good, 400, ""},
		{"half of a rune", "PUT /v1/locks/%ff HTTP/1.1" + good, 400, ""},
		{"fragment", "PUT /v1/locks/h#x HTTP/1.1" + good, 200, "h#x"},
		{"two lengths", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", 400, ""},
		{"length and chunks", "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400, ""},
		{"form", "POST " + api.Break + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n" + `{"name":"a"}`, 415, ""},
	} {
		status, h := raw(t, url, tt.text)
		if status != tt.status {
			t.Errorf("%s: status %d; want %d", tt.name, status, tt.status)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") || name == "Location" || name == "Upgrade" {
				t.Errorf("%s: the answer has the header %s", tt.name, name)
			}
		}
		var want []string
		if tt.enters != "" {
			want = []string{tt.enters}
		}
		if got := e.took(); !slices.Equal(got, want) {
			t.Errorf("%s: %q enter; want %q", tt.name, got, want)
		}
	}
}

// Trap: rights go by the name that the store gets, however the path is written.
func TestRightsOfEncodedNames(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": {Verbs: []server.Verb{server.Lock}, Prefix: "ci/"}})
	e := newRecorder()
	_, url := start(t, e, &server.Options{Authenticate: d.authenticate})
	for path, want := range map[string]string{
		"/v1/locks/ci/a": "ci/a", "/v1/locks/ci%2Fb": "ci/b", "/v1/locks/%63i/c": "ci/c", "/v1/locks?name=ci%2Fd": "ci/d", "/v1/locks/ci/%2e%2e/prod": "ci/../prod",
		"/v1/locks/ci%252Fa": "", "/v1/locks/CI/a": "", "/v1/locks//ci/a": "", "/v1/locks/./ci/a": "", "/v1/locks/prod/../ci/a": "", "/v1/locks?name=prod": "",
		"/v1/locks/prod%00ci/": "", "//v1/locks/ci/a": "", "/v1/locks/": "",
	} {
		status, _ := raw(t, url, "PUT "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ci\r\n\r\n")
		got := strings.Join(e.took(), " and ")
		if got != want || (status == 200) != (want != "") {
			t.Errorf("PUT %s = %d and takes %q; want %q", path, status, got, want)
		}
	}
}
