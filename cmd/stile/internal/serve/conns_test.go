package serve

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

var slow = flag.Int("slow", 200, "slow connections of TestSlowConnections")

// A crowd is connections to a service.
type crowd struct {
	*testing.T
	*bounded
	addr  string
	conns []net.Conn
}

// A narrow listener accepts connections that a few unread answers fill.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// serves starts the service over memory with a number of connections at most, and a token.
func serves(t *testing.T, most int, full func()) (c *crowd, store *memory.Store, token string) {
	t.Helper()
	f := &front{tokens: filepath.Join(t.TempDir(), "tokens.json"), page: pageOn}
	token, _, err := addToken(f.tokens, "ci", []right{{Verbs: server.Verbs}})
	if err != nil {
		t.Fatal(err)
	}
	o := &server.Options{}
	if err := complete(o, f); err != nil {
		t.Fatal(err)
	}
	web, err := newWeb(f)
	if err != nil {
		t.Fatal(err)
	}
	store = memory.NewStore()
	d := store.Driver()
	s, err := server.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bounded{Listener: narrow{l}, most: most, full: full}
	web.Handler, web.ConnState = s, b.state
	served := make(chan error, 1)
	go func() { served <- web.Serve(b) }()
	c = &crowd{T: t, bounded: b, addr: l.Addr().String()}
	t.Cleanup(func() {
		s.EndWaits()
		web.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		d.Close()
		for _, conn := range c.conns {
			conn.Close()
		}
		if b.mu.Lock(); b.open != 0 || b.strangers.Len()+b.clients.Len() != 0 {
			t.Errorf("after the end %d connections are open, and %d and %d are waited for", b.open, b.strangers.Len(), b.clients.Len())
		}
		b.mu.Unlock()
	})
	return c, store, token
}

// dial opens a connection and sends a text.
func (c *crowd) dial(text string) net.Conn {
	c.Helper()
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		c.Fatal(err)
	}
	c.conns = append(c.conns, conn)
	if _, err := io.WriteString(conn, text); err != nil {
		c.Logf("a slow connection: %v", err) // its place went to another
	}
	return conn
}

// unread opens a connection and sends a request again and again, without a token, and reads no answer.
func (c *crowd) unread(what string) {
	c.Helper()
	conn := c.dial("")
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		c.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Repeat(what+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 2000)); err != nil {
		c.Logf("a slow connection: %v", err) // its place went to another
	}
}

// held returns how many connections do not wait for their clients.
func (c *crowd) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open - c.strangers.Len() - c.clients.Len()
}

// head returns the head of a request with a token.
func head(what, token, rest string) string {
	return what + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n" + rest + "\r\n"
}

// queued waits until a name has a number of claims.
func queued(t *testing.T, d driver.Driver, name string, claims int) {
	t.Helper()
	servertest.Until(t, "all are in the queue", func() bool {
		l, err := d.(driver.Lister).List(t.Context(), &driver.Query{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return len(l) == 1 && len(l[0].Claims) == claims
	})
}

const asJSON = "Content-Type: application/json\r\n"

// More slow connections than the service may have hold nobody up: neither those of strangers, nor those of clients that stop
// in a body, in reading, or between requests. The service waits for each of them. A request that waits is not disturbed by them.
func TestSlowConnections(t *testing.T) {
	most := *slow / 2
	c, store, token := serves(t, most, func() { t.Error("no connection could be closed for another") })
	d := store.Driver()
	defer d.Close()
	for i := range 2000 { // so that the list of all is more than connections take unread
		many := drive.Claim(fmt.Sprintf("many/%04d", i), "x")
		many.Record = strings.Repeat("r", driver.MaxRecord)
		drive.Holds(t, d, many)
	}
	holder := drive.Claim("waited", "x")
	drive.Holds(t, d, holder)
	waits := c.dial(head("PUT /v1/locks/waited?wait=5m", token, ""))
	queued(t, d, "waited", 2)
	kinds := map[string]func(){
		"nothing":         func() { c.dial("") },
		"part of a head":  func() { c.dial("PUT /v1/locks/a HTTP/1.1\r\nHost: ") },
		"no token":        func() { c.dial(head("PUT /v1/locks/a", "none", "")) },
		"part of a body":  func() { c.dial(head("POST "+api.Enter, token, asJSON+"Content-Length: 1000\r\n") + "{") },
		"an unread list":  func() { c.dial(head("POST "+api.List, token, asJSON+"Content-Length: 2\r\n") + "{}") },
		"no next request": func() { c.dial(head("GET /v1/locks/a", token, "")) },
		"unread probes":   func() { c.unread("GET /healthz") },
		"unread scripts":  func() { c.unread("GET /page/page.js") },
		"unread options":  func() { c.unread("OPTIONS *") },
	}
	names := slices.Sorted(maps.Keys(kinds))
	for i := range *slow {
		kinds[names[i%len(names)]]()
	}
	servertest.Until(t, "only the request that waits is held", func() bool { return c.held() == 1 })
	var took []time.Duration
	for i := range 50 {
		by := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			r, err := http.NewRequestWithContext(ctx, method, "http://"+c.addr+fmt.Sprintf("/v1/locks/mine%d", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Stile-Handle", fmt.Sprintf("an-id-of-22-characters-%04d", i))
			begun := time.Now()
			res, err := by.Do(r)
			took = append(took, time.Since(begun))
			if err != nil {
				t.Fatalf("%s %d: %v", method, i, err)
			}
			if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
				t.Errorf("%s %d = %d %s, %v", method, i, res.StatusCode, text, err)
			}
			res.Body.Close()
			cancel()
		}
		by.CloseIdleConnections()
	}
	slices.Sort(took)
	t.Logf("%d slow connections, %d at most: p50 %v, worst %v", *slow, most, took[len(took)/2], took[len(took)-1])
	drive.Leave(t, d, holder)
	res, err := http.ReadResponse(bufio.NewReader(waits), nil)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("the request that waited gets %v, %v; want the lock", res, err)
	}
}

// A connection that never had a request gives way before one of a client between two requests, even if the client's is idle for
// longer.
func TestStrangersGiveWay(t *testing.T) {
	c, _, token := serves(t, 3, func() { t.Error("no connection could be closed for another") })
	asks := func(conn net.Conn) {
		t.Helper()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, head("GET /v1/locks/a", token, "")); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("GET = %v, %v", res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	client := c.dial("")
	asks(client)
	strangers := []net.Conn{c.dial(""), c.dial("GET / HTTP/1.1\r\n")}
	others := []net.Conn{c.dial(""), c.dial("")}
	for _, conn := range others {
		asks(conn)
	}
	for i, conn := range strangers {
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("stranger %d reads %d, %v; want the end of its connection", i, n, err)
		}
	}
	asks(client)
}

// If all connections have requests that wait, a further one finds no room, and a warning says so once.
func TestNoRoom(t *testing.T) {
	var warned atomic.Int32
	c, store, token := serves(t, 3, func() { warned.Add(1) })
	d := store.Driver()
	defer d.Close()
	drive.Holds(t, d, drive.Claim("a", "x"))
	var waits []net.Conn
	for i := range 3 {
		waits = append(waits, c.dial(head("PUT /v1/locks/a?wait=5m", token, "")))
		queued(t, d, "a", i+2)
	}
	for range 2 {
		if _, err := c.dial("").Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("a fourth connection reads %v; want its end", err)
		}
	}
	if n := warned.Load(); n != 1 {
		t.Errorf("%d warnings; want one", n)
	}
	waits[0].Close()
	servertest.Until(t, "there is room", func() bool {
		conn := c.dial(head("GET /v1/locks/a", token, ""))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err == nil && res.StatusCode == 200
	})
}
