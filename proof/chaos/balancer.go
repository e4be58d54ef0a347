//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// Kinds of faults of a balancer. They hit every second request, by chance.
const (
	answer502    = "answer 502"        // by a page, either in place of a request or in place of its answer
	answer504    = "answer 504"        // by a page, while the request is still under way
	breakAnswers = "break off answers" // in the middle
)

// ofBalancer are the faults that only a store behind a balancer has.
var ofBalancer = []fault{
	{answer502, func(l *lane, d time.Duration) string { return l.trouble(answer502, d) }},
	{answer504, func(l *lane, d time.Duration) string { return l.trouble(answer504, d) }},
	{breakAnswers, func(l *lane, d time.Duration) string { return l.trouble(breakAnswers, d) }},
}

func (l *lane) trouble(kind string, d time.Duration) string {
	l.store.balancer.kind.Store(kind)
	l.wait(d)
	l.store.balancer.kind.Store("")
	return fmt.Sprintf("the balancer: %s, for %v", kind, d)
}

// A balancer is an HTTP proxy that sends each request to the next of some servers. If it cannot, it answers 502.
type balancer struct {
	addr    string
	kind    atomic.Value // of its fault, "" if it has none
	next    atomic.Int64
	to      []*url.URL
	forward *http.Transport
	late    sync.WaitGroup // requests that nobody waits for
}

// newBalancer starts a balancer, which ends with the test.
func newBalancer(t servertest.TB, addrs []string) *balancer {
	b := &balancer{forward: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.kind.Store("")
	for _, addr := range addrs {
		b.to = append(b.to, &url.URL{Scheme: "http", Host: addr})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("the balancer: %v", err)
	}
	b.addr = l.Addr().String()
	web := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		_ = web.Serve(l) // until it is closed
		close(served)
	}()
	t.Cleanup(func() {
		web.Close()
		<-served
		b.late.Wait()
		b.forward.CloseIdleConnections()
	})
	return b
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has not sent it whole
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	kind := b.kind.Load()
	if rand.IntN(2) == 0 {
		kind = ""
	}
	proxy := &httputil.ReverseProxy{
		Transport: b.forward, FlushInterval: -1,
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(b.to[int(b.next.Add(1))%len(b.to)]) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { page(w, http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0), // of answers that end too soon, as they are to do
	}
	switch kind {
	case answer502:
		if rand.IntN(2) == 0 {
			page(w, http.StatusBadGateway)
			return
		}
		proxy.ModifyResponse = func(*http.Response) error { return errLost }
	case answer504:
		b.passLate(r)
		page(w, http.StatusGatewayTimeout)
		return
	case breakAnswers:
		proxy.ModifyResponse = func(a *http.Response) error {
			a.Body = &broken{a.Body, max(1, a.ContentLength/2)}
			return nil
		}
	}
	proxy.ServeHTTP(w, r)
}

var errLost = errors.New("the answer is lost")

// page answers a request as proxies do.
func page(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	text := http.StatusText(status)
	// The client may be gone.
	_, _ = fmt.Fprintf(w, "<html>\n<head><title>%[1]d %[2]s</title></head>\n<body>\n<center><h1>%[1]d %[2]s</h1></center>\n"+
		"<hr><center>nginx</center>\n</body>\n</html>\n", status, text)
}

// passLate passes a request on that its client hears no more of.
func (b *balancer) passLate(r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), ttl)
	late := r.Clone(ctx)
	late.RequestURI = ""
	late.URL.Scheme, late.URL.Host = "http", b.to[int(b.next.Add(1))%len(b.to)].Host
	late.Host = late.URL.Host
	b.late.Go(func() {
		defer cancel()
		if a, err := b.forward.RoundTrip(late); err == nil { // otherwise it is lost
			_, _ = io.Copy(io.Discard, a.Body) // until it ends, or the time of the request
			a.Body.Close()
		}
	})
}

// A broken answer ends before its end.
type broken struct {
	io.ReadCloser
	left int64 // bytes
}

func (a *broken) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := a.ReadCloser.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}
