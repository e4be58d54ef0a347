package serve

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// A local connection is within this process, and has loopback addresses.
type local struct{ net.Conn }

func (local) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A single listener accepts one connection.
type single struct {
	conn chan net.Conn
	done chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return local{}.LocalAddr() }

// Trap: net/http answers some requests by itself. A client that does not read such an answer has its connection for 30 s more,
// as with the service's answers.
func TestUnreadByNetHTTP(t *testing.T) {
	for name, text := range map[string]string{
		"options":             "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"malformed":           "no HTTP\r\n\r\n",
		"no host":             "GET / HTTP/1.1\r\n\r\n",
		"another version":     "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n",
		"unknown encoding":    "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x\r\n\r\n",
		"unknown expectation": "GET / HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\n\r\n",
		"continue":            "POST /v1/traits HTTP/1.1\r\nHost: localhost\r\n" + asJSON + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
		"continue, of Consul": "PUT /v1/kv/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := asking(t, text)
				time.Sleep(31 * time.Second)
				if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
					t.Errorf("after 31 s there is %q, %v; want the end of the connection", text, err)
				}
			})
		})
	}
}

// asking sends a text to the service, and returns the connection.
func asking(t *testing.T, text string) net.Conn {
	d := memory.New()
	key := make([]byte, 32)
	s, err := server.New(d, &server.Options{Consul: true, Keys: [][]byte{key}})
	if err != nil {
		t.Fatal(err)
	}
	web, err := newWeb(&front{})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	l := &single{make(chan net.Conn, 1), make(chan struct{})}
	l.conn <- local{far}
	web.Handler = s
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	t.Cleanup(func() {
		near.Close()
		close(l.done)
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		d.Close()
	})
	if err := near.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(near, text); err != nil {
		t.Fatal(err)
	}
	return near
}
