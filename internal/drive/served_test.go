//go:build unix

package drive

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
)

// A lateConn returns from the write of a request's body only when the answer has begun.
type lateConn struct {
	net.Conn
	body  string
	begun <-chan struct{}
}

func (c lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if strings.HasSuffix(string(b), c.body) {
		<-c.begun
	}
	return n, err
}

// traced is a transport that says when a request has been written, and how.
type traced struct {
	*http.Transport
	wrote chan error
}

func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { t.wrote <- i.Err }}
	return t.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// Trap: on a busy machine the first part of an answer may come while the balancer has yet to see that the request's body is
// over. Where net/http closes the body then, the connection to the server ends in the middle of the answer.
func TestBalancerCutsNoAnswer(t *testing.T) {
	const body = "{}"
	begun, wrote := make(chan struct{}), make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		if err := <-wrote; err != nil {
			t.Errorf("the request was written: %v; want nil", err)
		}
		_, _ = io.WriteString(w, "two\n")
	}))
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	by := traced{&http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return lateConn{conn, body, begun}, err
	}}, wrote}
	t.Cleanup(by.CloseIdleConnections)
	res, err := http.Post("http://"+balancer(t, by, []*url.URL{target}), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "one\n" {
		t.Errorf("the first part is %q, %v", line, err)
	}
	close(begun)
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "two\n" {
		t.Errorf("the rest is %q, %v; want two", rest, err)
	}
}
