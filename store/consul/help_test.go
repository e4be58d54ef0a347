package consul

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// open returns a driver for the store at a URL.
func open(t testing.TB, url string) *Driver {
	t.Helper()
	d, err := tryOpen(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func tryOpen(t testing.TB, url string) (*Driver, error) {
	t.Helper()
	d, err := driver.Open(timely(t), url)
	if err != nil {
		if d != nil {
			t.Errorf("Open returns a driver beside %v", err)
		}
		return nil, err
	}
	t.Cleanup(func() { d.Close() })
	return d.(*Driver), nil
}

// lockers returns a client of package stile over a driver of its own.
func lockers(t testing.TB, url string, o *stile.Options) *stile.Client {
	t.Helper()
	c, err := stile.New(open(t, url), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// counted returns a driver that counts its requests.
func counted(t testing.TB, addr string) (*Driver, *counter) {
	t.Helper()
	n := &counter{next: transport(time.Second, nil)}
	d, err := New(timely(t), &Options{Client: &http.Client{Transport: n}, URL: "http://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); n.next.CloseIdleConnections() })
	n.take()
	return d, n
}

// A counter remembers the requests that it passes on.
type counter struct {
	next *http.Transport
	mu   sync.Mutex
	made []string
	asks []string // the sessions that it asked for
}

func (n *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.made = append(n.made, r.Method+" "+r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/session/create") {
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		n.asks = append(n.asks, string(text))
	}
	n.mu.Unlock()
	return n.next.RoundTrip(r)
}

// take returns the requests since the last call.
func (n *counter) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	made := n.made
	n.made = nil
	return made
}

func claimOn(name string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: rand.Text(), Client: rand.Text(), Weight: driver.All, Capacity: driver.All,
		TTL: 30 * time.Second, Wait: 6 * time.Second,
	}
}

func shared(name string) *driver.Claim {
	c := claimOn(name)
	c.Weight = 1
	return c
}

// An operator changes the store by hand, by plain HTTP.
type operator struct {
	testing.TB
	url string
}

func (o operator) do(method, path, body string) (int, []byte) {
	o.Helper()
	r, err := http.NewRequestWithContext(timely(o), method, o.url+"/v1/"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		o.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		o.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		o.Fatal(err)
	}
	return answer.StatusCode, text
}

func (o operator) must(method, path, body string) []byte {
	o.Helper()
	status, text := o.do(method, path, body)
	if status != http.StatusOK {
		o.Fatalf("%s %s: status %d: %s", method, path, status, text)
	}
	return text
}

// under returns the keys that begin with a text.
func (o operator) under(prefix string) (list []pair) {
	o.Helper()
	status, text := o.do(http.MethodGet, "kv/"+escape(prefix)+"?recurse&consistent", "")
	if status == http.StatusNotFound {
		return nil
	}
	if err := json.Unmarshal(text, &list); err != nil {
		o.Fatalf("%s: %v", text, err)
	}
	return list
}

// queued waits until a name has n claims, and returns their keys in ticket order.
func (o operator) queued(name string, n int) (list []*entry) {
	o.Helper()
	folder := "stile/" + driver.EncodeName(name) + "/"
	servertest.Until(o, "the claims stand in the queue", func() bool {
		list = parse(name, folder, o.under(folder)).entries
		return len(list) == n
	})
	return list
}

// session makes a session and returns its id.
func (o operator) session(ttl string) string {
	o.Helper()
	var made struct{ ID string }
	text := o.must(http.MethodPut, "session/create", `{"TTL": "`+ttl+`", "Checks": [], "LockDelay": "0s"}`)
	if err := json.Unmarshal(text, &made); err != nil {
		o.Fatal(err)
	}
	return made.ID
}

func (o operator) sessions() int {
	o.Helper()
	var list []struct{}
	if err := json.Unmarshal(o.must(http.MethodGet, "session/list?consistent", ""), &list); err != nil {
		o.Fatal(err)
	}
	return len(list)
}

func (o operator) remove(e *entry) { o.Helper(); o.must(http.MethodDelete, "kv/"+escape(e.Key), "") }
func (o operator) destroy(e *entry) {
	o.Helper()
	o.must(http.MethodPut, "session/destroy/"+e.Session, "")
}

func lockOf(t testing.TB, l *stile.Lock) *stile.Lease {
	t.Helper()
	lease, err := l.Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// lost waits until a lease is lost, for at most the given time, and returns the error.
func lost(t testing.TB, lane *awake.Turn, l *stile.Lease, within time.Duration) *stile.LostError {
	t.Helper()
	start := time.Now()
	select {
	case <-l.Context().Done():
	case <-awake.For(time.Minute):
		t.Fatal("the lease is not lost after a minute")
	}
	lane.Within(time.Since(start), within, "the loss of the lease")
	e, ok := errors.AsType[*stile.LostError](context.Cause(l.Context()))
	if !ok {
		t.Fatalf("the lease ended with %v; want a LostError", context.Cause(l.Context()))
	}
	return e
}

func contextOf(t testing.TB, length time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), length)
}
