package serve

import (
	"context"
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

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
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
func (p pipes) Close() error {
	close(p)
	return nil
}
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
				web.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// A late store takes a while to answer Enter.
type late struct {
	*memory.Driver
	by time.Duration
}

func (l late) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	select {
	case <-time.After(l.by):
		return l.Driver.Enter(ctx, c)
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	}
}

// A service that is told to end answers a request under way, unless the store takes too long. A request that waits for a lock
// ends at once.
func TestServiceEnds(t *testing.T) {
	for _, tt := range []struct {
		name, path, status string
		by, after          time.Duration // until the store answers, and until the service has ended
	}{
		{"the store is late", "/v1/locks/a", "200", 9 * time.Second, 9 * time.Second},
		{"the store hangs", "/v1/locks/a", "", time.Hour, 10 * time.Second},
		{"the lock is held", "/v1/locks/held?wait=5m", "503", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := late{memory.New(), tt.by}
				drive.Holds(t, d.Driver, drive.Claim("held", "x"))
				ci := &server.Principal{Name: "ci", Rights: []server.Right{{Verbs: server.Verbs}}}
				s, err := server.New(d, &server.Options{Authenticate: func(*http.Request) (*server.Principal, error) { return ci, nil }})
				if err != nil {
					t.Fatal(err)
				}
				web, err := newWeb(&front{})
				if err != nil {
					t.Fatal(err)
				}
				web.Handler = s
				web.RegisterOnShutdown(s.EndWaits)
				ctx, stop := context.WithCancel(t.Context())
				l, ended := make(pipes), make(chan error, 1)
				go func() { ended <- run(ctx, web, l) }()
				near, far := net.Pipe()
				l <- far
				begin := time.Now()
				if _, err := io.WriteString(near, "PUT "+tt.path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond) // the request is under way
				stop()
				answer, err := io.ReadAll(near)
				status, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "HTTP/1.1 "), " ")
				if err != nil || status != tt.status {
					t.Errorf("the answer is %q, %v; want %s", answer, err, tt.status)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took < tt.after || took > tt.after+time.Second {
					t.Errorf("the service ended after %v; want %v", took, tt.after)
				}
				near.Close()
				d.Close()
			})
		})
	}
}
