package serve

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A handler that panics leaves its trace, and a client that breaks its connection leaves none.
func TestPanicsAreLogged(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("a defect")
		}
		w.WriteHeader(http.StatusNoContent)
		w.WriteHeader(http.StatusNoContent) // which net/http says something of
	}))
	web.Config.ErrorLog = log.New(panics{&said}, "stile: ", 0)
	web.Start()
	for _, path := range []string{"/", "/panic"} {
		if r, err := web.Client().Get(web.URL + path); err == nil {
			_, _ = io.Copy(io.Discard, r.Body) // there is none
			r.Body.Close()
		}
	}
	web.Close() // until then its handlers may write
	if got := said.String(); !strings.HasPrefix(got, "stile: http: panic serving") || !strings.Contains(got, "a defect") ||
		strings.Contains(got, "superfluous") {
		t.Errorf("the log is %q; want the panic and its trace, and nothing else", got)
	}
}

// A pipes listener accepts connections without a network, so that time can be virtual.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A head has a time and a size, and so has the pause before the next request.
func TestHeads(t *testing.T) {
	const whole = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, tt := range []struct {
		name, sends, status string
		after               time.Duration // until the end of the connection
	}{
		{"nothing", "", "", headWithin},
		{"a part", "GET / HTTP/1.1\r\nHost: a\r\nX: ", "", headWithin},
		{"a large head", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2*maxHead), "431", 0},
		{"no second request", whole, "204", idleWithin},
		{"a part of a second", whole + "GET", "204", idleWithin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, err := newWeb(&front{})
				if err != nil {
					t.Fatal(err)
				}
				web.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
				l, served := make(pipes), make(chan error, 1)
				go func() { served <- web.Serve(l) }()
				near, far := net.Pipe()
				l <- far
				begin := time.Now()
				go func() {
					_, _ = io.WriteString(near, tt.sends) // which the service need not read to the end
				}()
				answer, err := io.ReadAll(near)
				took := time.Since(begin)
				status, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "HTTP/1.1 "), " ")
				if err != nil || status != tt.status || took < tt.after || took > tt.after+time.Second {
					t.Errorf("%q, %v after %v; want %s, and the end after %v", answer, err, took, tt.status, tt.after)
				}
				near.Close()
				close(l)
				if err := <-served; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}
