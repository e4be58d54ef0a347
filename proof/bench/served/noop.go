//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/servertest"
)

// noopArg is the first argument of a process that is the service that does nothing; the address and the answers follow.
const noopArg = "noop"

// serveNoop answers each request for Enter and Leave like the lock service would, with the same HTTP server, and does nothing:
// it only decodes the request and encodes the answer.
func serveNoop(args []string) error {
	if len(args) != 3 {
		return errors.New("the service that does nothing has an address and two answers")
	}
	var entered api.PlaceAnswer
	var left api.LeaveAnswer
	if err := errors.Join(json.Unmarshal([]byte(args[1]), &entered), json.Unmarshal([]byte(args[2]), &left)); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+api.Enter, nothing[api.EnterRequest](&entered))
	mux.HandleFunc("POST "+api.Leave, nothing[api.LeaveRequest](&left))
	web := &http.Server{Addr: args[0], Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, Protocols: &http.Protocols{}}
	web.Protocols.SetHTTP1(true)
	return web.ListenAndServe()
}

func nothing[Q any](a any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		text, bad := json.Marshal(a)
		if err := errors.Join(err, bad); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", api.JSON)
		_, _ = w.Write(text) // a client that is gone needs no answer
	}
}

// A noop is the service that does nothing, and its client.
type noop struct {
	server *servertest.Server
	by     *http.Transport
	enter  api.EnterRequest
	leave  api.LeaveRequest
}

// pair sends two requests of the same bytes as a lock and unlock.
func (n *noop) pair() error {
	if err := n.ask(api.Enter, &n.enter, &api.PlaceAnswer{}); err != nil {
		return err
	}
	return n.ask(api.Leave, &n.leave, &api.LeaveAnswer{})
}

func (n *noop) ask(path string, q, a any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+n.server.Addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", api.JSON)
	res, err := n.by.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, a)
}

// noop starts the service that does nothing. Its requests and answers are those of a lock and unlock at a real service.
func (r *run) noop(service string) (*noop, error) {
	seen, err := record(service)
	if err != nil {
		return nil, err
	}
	n := &noop{by: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	entered, left := seen[api.Enter], seen[api.Leave]
	if err := errors.Join(json.Unmarshal(entered.request, &n.enter), json.Unmarshal(left.request, &n.leave)); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n.server = servertest.Start(r.host, servertest.Process{
		Binary: self,
		Args: func(s *servertest.Server) []string {
			return []string{noopArg, s.Addr, string(entered.answer), string(left.answer)}
		},
		Ready: listens,
	})
	return n, nil
}

// An exchange is the bodies of a request and of its answer.
type exchange struct{ request, answer []byte }

// record locks and unlocks once at a service, and returns what was said, by path.
func record(service string) (map[string]exchange, error) {
	seen, mu := map[string]exchange{}, sync.Mutex{}
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: service}) // no header says that this is a proxy: the service would refuse it
	}}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(request))
		answer := httptest.NewRecorder()
		to.ServeHTTP(answer, r)
		mu.Lock()
		seen[r.URL.Path] = exchange{request, bytes.Clone(answer.Body.Bytes())}
		mu.Unlock()
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client reports what it lacks
	}))
	defer between.Close()
	c, err := stile.Open(context.Background(), "stile://"+between.Listener.Addr().String(), nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := lockAndUnlock(c.Mutex("served/0"))(); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{api.Enter, api.Leave} {
		if len(seen[path].request) == 0 {
			return nil, fmt.Errorf("a lock and unlock made no request %s", path)
		}
	}
	return seen, nil
}
