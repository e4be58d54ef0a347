package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// Traps: without credentials the server refuses a page of another site, a name that resolves to this machine (DNS
// rebinding), a proxy and another machine, and says why.
func TestOnlyThisMachine(t *testing.T) {
	s := newServer(t, newFake(), nil)
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7845}
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		local  net.Addr
		status int
		says   string
	}{
		{"good", func(*http.Request) {}, local, 200, ""},
		{"localhost", func(r *http.Request) { r.Host = "LocalHost:7845" }, local, 200, ""},
		{"IPv6", func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]:7845", "[::1]:1" }, local, 200, ""},
		{"page of this service", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:7845") }, local, 200, ""},
		{"page of another site", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, local, 403, "page of another site"},
		{"browser", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, local, 403, "page of another site"},
		{"form", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, local, 415, "application/json"},
		{"no type", func(r *http.Request) { r.Header.Del("Content-Type") }, local, 415, "application/json"},
		{"rebinding", func(r *http.Request) { r.Host = "evil.example:7845" }, local, 403, "the Host is another"},
		{"like an address", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, local, 403, "the Host is another"},
		{"no host", func(r *http.Request) { r.Host = "" }, local, 403, "the Host is another"},
		{"forwarded", func(r *http.Request) { r.Header.Set("Forwarded", "for=1.2.3.4") }, local, 403, "header Forwarded"},
		{"forwarded for", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") }, local, 403, "header X-Forwarded-For"},
		{"forwarded for, after an empty one", func(r *http.Request) { r.Header["X-Forwarded-For"] = []string{"", "1.2.3.4"} }, local, 403, "header X-Forwarded-For"},
		{"real IP", func(r *http.Request) { r.Header.Set("X-Real-IP", "1.2.3.4") }, local, 403, "header X-Real-Ip"},
		{"proxy", func(r *http.Request) { r.Header.Set("Via", "1.1 vegur") }, local, 403, "header Via"},
		{"proxy that says nothing", func(r *http.Request) { r.Proto, r.ProtoMinor = "HTTP/1.0", 0 }, local, 403, "HTTP/1.0"},
		{"another machine", func(r *http.Request) { r.RemoteAddr = "10.0.0.7:1234" }, local, 403, "only its own machine"},
		{"another listener", func(*http.Request) {}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7845}, 403, "only its own machine"},
		{"no listener", func(*http.Request) {}, nil, 403, "only its own machine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.local != nil {
				ctx = context.WithValue(ctx, http.LocalAddrContextKey, tt.local)
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:7845"+api.Traits, strings.NewReader("{}"))
			r.RemoteAddr = "127.0.0.1:1234"
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			tt.change(r)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s; want %d and %q", w.Code, w.Body, tt.status, tt.says)
			}
			if e, ok := api.ReadError(w.Body.Bytes()); tt.status != 200 && (!ok || driver.OutcomeOf(e.Err()) != driver.OutcomeRefused) {
				t.Errorf("%s is no refusal", w.Body)
			}
		})
	}
}

// No request is redirected, for example to the lock of another name: a client that follows the redirect would take that
// lock.
func TestNoRedirects(t *testing.T) {
	s := newServer(t, newFake(), nil)
	for _, target := range []string{"//v1/locks/a//b", "/v1/../v1/locks/a//b", "/v1//traits", "/v1/./traits", "/..", "//", "/v1/traits/"} {
		r := httptest.NewRequestWithContext(
			context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}), http.MethodPut, target, nil)
		r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1234"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if e, ok := api.ReadError(w.Body.Bytes()); w.Code != 404 || !ok || e.Code != api.CodeInvalid {
			t.Errorf("%s = %d %s, Location %q; want 404", target, w.Code, w.Body, w.Header().Get("Location"))
		}
	}
}

// An unknown request, or one with unknown fields, reaches no driver.
func TestOtherRequestsAreRefused(t *testing.T) {
	_, url := start(t, newFake(), nil)
	for _, tt := range []struct {
		name, path, text string
		status           int
	}{
		{"unknown path", "/v1/steal", "{}", 404},
		{"another version", "/v2/enter", "{}", 404},
		{"not JSON", api.Enter, "name=a", 400},
		{"two values", api.Traits, "{} {}", 400},
		{"unknown field", api.Traits, `{"force":true}`, 400},
		{"number for a ticket", api.Break, `{"name":"a","ticket":1}`, 400},
		{"too large", api.Traits, `{"x":"` + strings.Repeat("x", api.MaxRequest) + `"}`, 413},
		{"nothing", api.Enter, `{}`, 400},
		{"no time to wait", api.Await, body(t, &api.AwaitRequest{Claim: claim("x", 1)}), 400},
		{"negative keep", api.Leave, body(t, &api.LeaveRequest{Claim: claim("x", 1), Keep: -1}), 400},
		{"no renewals", api.Renew, `{"claims":[]}`, 400},
		{"break of no name", api.Break, `{"name":"","ticket":"0"}`, 400},
	} {
		status, err := asks(t, url+tt.path, tt.text)
		if status != tt.status || driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) {
			t.Errorf("%s: %d, %v; want %d, and a refusal", tt.name, status, err, tt.status)
		}
	}
}

// A loopbackConn is a connection without a network, so that time can be virtual. It has loopback addresses.
type loopbackConn struct{ net.Conn }

func (loopbackConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7845} }
func (loopbackConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A pipeListener accepts loopbackConns.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return loopbackConn{}.LocalAddr() }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- loopbackConn{far}:
		return near, nil
	case <-l.done: // a transport also dials for requests that another connection answers meanwhile
		return nil, net.ErrClosed
	}
}

// inBubble is the beginning of a server's URL in a bubble.
const inBubble = "http://127.0.0.1"

// connected serves a store in a bubble, and returns the transport to it.
func connected(t *testing.T, d driver.Driver) *http.Client {
	return &http.Client{Transport: listening(t, d)}
}

func listening(t *testing.T, d driver.Driver) *http.Transport {
	_, transport := serving(t, d)
	return transport
}

func serving(t *testing.T, d driver.Driver) (*server.Server, *http.Transport) {
	s := newServer(t, d, nil)
	return s, servingBy(t, s)
}

// servingBy serves by a server in a bubble, and returns the transport to it.
func servingBy(t *testing.T, s *server.Server) *http.Transport {
	l := &pipeListener{make(chan net.Conn), make(chan struct{})}
	web := &http.Server{Handler: s}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		s.EndWaits()
		transport.CloseIdleConnections()
		close(l.done)
		web.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return transport
}

// Trap: a body that never ends keeps its connection only for a while, whatever the answer.
func TestSlowBody(t *testing.T) {
	for to, kind := range map[string]string{
		"POST " + api.Enter: api.JSON, "POST " + api.Leave: "text/plain", "POST /v1/steal": api.JSON, "PUT /v1/locks/a": "",
		"GET " + api.Watch + "?name=a": "", "GET /openapi.json": "", "GET /readyz": "", "POST " + api.Batch: api.Lines,
		"PUT /v1/session/create": "", "PUT /v1/kv/a": "", "GET /v1/kv/a": "",
		"POST /page/login": api.JSON, "POST /page/logout": api.JSON, "POST /page/break": api.JSON, "GET /": "", "GET /page/events": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := asking(t, to+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "+kind+"\r\nContent-Length: 1000\r\n\r\n{")
			answers := bufio.NewReader(conn)
			res, err := http.ReadResponse(answers, nil)
			if err != nil || res.StatusCode < 400 {
				t.Fatalf("%s: a body that does not come = %v, %v; want an error", to, res, err)
			}
			if rest, err := io.ReadAll(res.Body); err != nil {
				t.Errorf("%s: %s, %v", to, rest, err)
			}
			if _, err := answers.ReadByte(); err != io.EOF {
				t.Errorf("%s: after the answer %v; want the end of the connection", to, err)
			}
		})
	}
}

// A request whose body stops on its way was not passed on. Its client may ask again, which is no mistake of its own.
func TestBodyStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := asking(t, "POST "+api.Batch+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "+api.Lines+"\r\nContent-Length: 1000\r\n\r\n{")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := api.ReadError(text); !ok || driver.OutcomeOf(e.Err()) != driver.OutcomeUnsent || !driver.IsUnreachable(e.Err()) {
			t.Errorf("%s, %s; want unsent and unreachable", res.Status, text)
		}
	})
}

// Trap: the time limit of the body does not limit the wait that follows.
func TestLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := connected(t, newFake())
		for _, id := range []string{"holder", "waiter"} {
			if status, text, err := postBy(t.Context(), by, inBubble+api.Enter, body(t, &api.EnterRequest{Claim: claim(id, 0)})); status != 200 {
				t.Fatalf("enter = %s, %v", text, err)
			}
		}
		for _, tt := range []struct{ asked, want time.Duration }{{40 * time.Second, 40 * time.Second}, {time.Hour, api.MaxAwait}} {
			begin := time.Now()
			status, text, err := postBy(t.Context(), by, inBubble+api.Await, body(t, &api.AwaitRequest{Claim: claim("waiter", 2), Within: tt.asked}))
			if took := time.Since(begin); status != 200 || took != tt.want {
				t.Errorf("await of %v = %s, %v after %v; want a place after %v", tt.asked, text, err, took, tt.want)
			}
		}
	})
}

// A watch reports each change and, between changes, gives signs of life.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		by := connected(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, inBubble+api.Watch+"?name=a", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := by.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		begin := time.Now()
		next := func(want string, after time.Duration) {
			t.Helper()
			line, err := lines.ReadString('\n')
			if err != nil || line != want+"\n" || time.Since(begin) != after {
				t.Fatalf("%q, %v after %v; want %q after %v", line, err, time.Since(begin), want, after)
			}
		}
		changed := func(after time.Duration) {
			t.Helper()
			next(api.EventChanged, after)
			next(api.EventData+"{}", after)
			next("", after)
		}
		changed(0)
		if _, err := f.Driver.Enter(t.Context(), new(claim("x", 0)).Driver()); err != nil {
			t.Fatal(err)
		}
		changed(0)
		next(":", api.Alive)
		next("", api.Alive)
		f.Close()
		next(api.EventEnd, api.Alive)
		line, _ := lines.ReadString('\n')
		text, _ := strings.CutPrefix(line, api.EventData)
		if e, ok := api.ReadError([]byte(text)); !ok || !driver.IsUnreachable(e.Err()) {
			t.Errorf("the watch of a store that is closed ends with %s; want unreachable", line)
		}
	})
}
