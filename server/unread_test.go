package server_test

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// Trap: net/http sends the rest of an answer after its handler. Whatever the answer, a client that does not read it has its
// connection for 30 s more, after 10 s for its body.
func TestUnreadAnswers(t *testing.T) {
	line := entering(t, claim("x", 0))
	rest := map[string]string{
		"PUT /v1/kv/a":   "Content-Length: 1\r\n\r\n", // the body does not come
		"POST /v1/batch": fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s", api.Lines, len(line), line),
	}
	for _, what := range []string{
		"GET /healthz", "GET /readyz", "HEAD /readyz", "POST /healthz", "GET /metrics", "GET /openapi.json", "GET /", "GET /page/page.js", "GET /page/page.css",
		"GET /page/none", "GET /page/recent?name=a", "GET /page/events", "GET /v1/locks/a", "PUT /v1/locks/a", "PATCH /v1/locks/a", "GET /v1/watch?name=a",
		"POST /v1/traits", "GET /v1/agent/self", "GET /v1/kv/a", "GET /v1/session/list", "PUT /v1/session/create", "PUT /v1/kv/a", "BREW /",
		"POST /v1/batch",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := asking(t, what+" HTTP/1.1\r\nHost: 127.0.0.1\r\n"+cmp.Or(rest[what], "\r\n"))
				time.Sleep(41 * time.Second)
				if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
					t.Errorf("after 41 s there is %q, %v; want the end of the connection", text, err)
				}
			})
		})
	}
}

// asking sends a text to a server, and returns the connection.
func asking(t *testing.T, text string) net.Conn {
	s := newServer(t, newFake(), &server.Options{Page: true, Consul: true, Keys: replicaKeys})
	conn, err := servingBy(t, s).DialContext(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}
