//go:build unix

package drive

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server"
	_ "github.com/stilelock/stile/store/remote" // of the scheme stile
)

// Served returns a store as clients of the lock service see it: over HTTP, with some replicas of the service, each with its
// own driver. It keeps only the faults of the store that such a client can meet too.
func Served(t testing.TB, replicas int, s drivertest.Store) drivertest.Store {
	t.Helper()
	return served(t, "stile://", replicas, nil, s)
}

// token is the credential of Guarded's clients.
const token = "test"

// Guarded is Served by one service that needs credentials. All clients are one principal, with the longest name, so that
// records have the least room.
func Guarded(t testing.TB, s drivertest.Store) drivertest.Store {
	t.Helper()
	who := &server.Principal{Name: strings.Repeat("p", record.MaxPrincipal), Rights: []server.Right{{Verbs: server.Verbs}}}
	o := &server.Options{Authenticate: func(r *http.Request) (*server.Principal, error) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			return who, nil
		}
		return nil, nil
	}}
	guarded := served(t, "stile://:"+token+"@", 1, o, s)
	guarded.MaxRecord = 3003 // in base64, with the name, it takes MaxRecord bytes
	return guarded
}

// served is Served, with clients whose URLs have a beginning, and services with options.
func served(t testing.TB, begin string, replicas int, o *server.Options, s drivertest.Store) drivertest.Store {
	t.Helper()
	at := func(addrs ...string) string { return begin + strings.Join(addrs, ",") }
	addr := serve(t, replicas, o, s.Open)
	served := drivertest.Store{
		Open: Opener(at(addr)), Detour: Detour(at, addr), Lease: s.Lease, Slack: s.Slack, Wake: s.Wake, Halfway: s.Halfway,
		OneCase: s.OneCase,
		Edge:    map[string]func(testing.TB, string) driver.Driver{},
	}
	if s.Fresh != nil {
		served.Fresh = func(t testing.TB) func() driver.Driver {
			fresh := s.Fresh(t)
			open := Opener(at(serve(t, replicas, o, func(testing.TB) driver.Driver { return fresh() })))
			return func() driver.Driver { return open(t) }
		}
	}
	for edge, open := range s.Edge {
		served.Edge[edge] = func(t testing.TB, name string) driver.Driver {
			return Opener(at(serve(t, 1, o, func(t testing.TB) driver.Driver { return open(t, name) })))(t)
		}
	}
	return served
}

// Service starts replicas of the lock service, each with a driver that open returns, and returns the address of the one, or
// of a balancer that sends each request to the next replica. They end with the test.
func Service(t testing.TB, replicas int, open func(testing.TB) driver.Driver) (addr string) {
	t.Helper()
	return serve(t, replicas, nil, open)
}

func serve(t testing.TB, replicas int, o *server.Options, open func(testing.TB) driver.Driver) (addr string) {
	t.Helper()
	var targets []*url.URL
	for range replicas {
		d := open(t)
		t.Cleanup(func() { d.Close() })
		s, err := server.New(d, o)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s)
		t.Cleanup(func() {
			s.EndWaits()
			web.CloseClientConnections()
			web.Close()
		})
		target, err := url.Parse(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	if len(targets) == 1 {
		return targets[0].Host
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return balancer(t, transport, targets)
}

// balancer starts a proxy that sends each request to the next of some servers, and returns its address.
func balancer(t testing.TB, transport http.RoundTripper, targets []*url.URL) string {
	var n atomic.Int64
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[n.Add(1)%int64(len(targets))])
		},
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else net/http closes the request's body when the answer begins. Whoever still sends it then closes the server's
		// connection.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.Listener.Addr().String()
}
