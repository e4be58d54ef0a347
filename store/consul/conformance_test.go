package consul_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/consul"
)

// store is the real Consul server of the tests, or the one that STILE_CONSUL names, as in
// STILE_CONSUL=consul://host:8500 go test -run 'Contract|Model' ./consul. A session ends at twice its length.
func store(t testing.TB) drivertest.Store {
	server := os.Getenv("STILE_CONSUL")
	lease := 10 * time.Second
	addr := ""
	if server == "" {
		// The clients of all cases have one address. An agent allows an address 200 connections by default.
		addr = servertest.Consul(t, map[string]any{"limits": map[string]any{"http_max_conns_per_client": 10_000}}).Addr
		server, lease = "consul://"+addr, servertest.ConsulFloor
	}
	s := drivertest.Store{Open: drive.Opener(server), Lease: lease, Slack: lease + time.Second}
	s.Fresh = func(t testing.TB) func() driver.Driver { // a prefix of its own
		open := drive.Opener(server + "?prefix=" + rand.Text() + "/")
		return func() driver.Driver { return open(t) }
	}
	if addr != "" {
		s.Detour = func(t testing.TB) *drivertest.Detour {
			p := servertest.NewProxy(t, addr)
			return &drivertest.Detour{Driver: drive.Opener("consul://" + p.Addr)(t), Way: p}
		}
		s.Taken = func(t testing.TB, name string) bool { return lockKeyHasSession(t, addr, name) }
		s.Foreign = map[string]func(testing.TB, string) *drivertest.Foreign{
			"api.Lock": func(t testing.TB, name string) *drivertest.Foreign { return apiLock(t, addr, name) },
		}
		s.Behind = map[string]func(testing.TB) *drivertest.Behind{"servers": func(t testing.TB) *drivertest.Behind { return behind(t, addr) }}
		s.Mishaps = drive.Mishaps(func(t testing.TB) *servertest.Server { return servertest.Consul(t, nil) },
			func(addrs ...string) string { return "consul://" + addrs[0] }, "data", true)
	}
	return s
}

// lockKeyHasSession reports whether the lock is taken for consul lock and the other clients of Consul.
func lockKeyHasSession(t testing.TB, addr, name string) bool {
	t.Helper()
	path := url.PathEscape("stile/" + driver.EncodeName(name) + "/.lock")
	ask, err := http.NewRequestWithContext(drive.Timely(t), http.MethodGet, "http://"+addr+"/v1/kv/"+path+"?consistent", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var keys []struct{ Session string }
	err = json.NewDecoder(r.Body).Decode(&keys)
	return err == nil && len(keys) == 1 && keys[0].Session != "" // or there is no such key
}

// behind is a server that is behind the leader: it shows no key, except in answers that need the other servers.
func behind(t testing.TB, addr string) *drivertest.Behind {
	var past atomic.Bool
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if past.Load() && !r.URL.Query().Has("consistent") && showsPast(w, r) {
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d := drive.Opener("consul://" + s.Listener.Addr().String() + "?prefix=" + rand.Text() + "/")(t)
	return &drivertest.Behind{
		Driver: d, FallsBehind: func() { past.Store(true) }, CatchesUp: func() { past.Store(false) },
		Left: func() int { return drive.Listed(t, d) },
	}
}

// showsPast answers a request that only reads keys, as if no key existed.
func showsPast(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("X-Consul-Index", "1")
	switch {
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/kv/"):
		w.WriteHeader(http.StatusNotFound)
		return true
	case r.URL.Path != "/v1/txn":
		return false
	}
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	var ops []struct{ KV struct{ Verb string } }
	if err := json.Unmarshal(text, &ops); err != nil {
		return false
	}
	missing := "null"
	for i, op := range ops {
		switch {
		case strings.HasPrefix(op.KV.Verb, "check-"):
			missing = fmt.Sprintf(`[{"OpIndex":%d,"What":"key doesn't exist"}]`, i)
		case op.KV.Verb != "get-tree":
			return false
		}
	}
	if missing != "null" {
		w.WriteHeader(http.StatusConflict)
	}
	fmt.Fprintf(w, `{"Results":[],"Errors":%s}`, missing)
	return true
}

// apiLock locks a name as the lock of Consul's own client library does.
func apiLock(t testing.TB, addr, name string) *drivertest.Foreign {
	put := func(path, body string) []byte {
		ask, err := http.NewRequestWithContext(drive.Timely(t), http.MethodPut, "http://"+addr+"/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("put %s: %s %s %v", path, r.Status, text, err)
		}
		return text
	}
	var session struct{ ID string }
	if err := json.Unmarshal(put("session/create", `{"TTL": "60s"}`), &session); err != nil {
		t.Fatal(err)
	}
	const flags = "?flags=3304740253564472344&" // api.LockFlagValue
	key := "kv/" + url.PathEscape("stile/"+driver.EncodeName(name)+"/.lock") + flags
	return &drivertest.Foreign{
		Holds: func() bool { return string(bytes.TrimSpace(put(key+"acquire="+session.ID, "theirs"))) == "true" },
		Leave: func() {
			put(key+"release="+session.ID, "")
			put("session/destroy/"+session.ID, "")
		},
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := store(t)
	drive.Lacks(t, s.Open)
	drivertest.Run(t, s)
}

func TestModel(t *testing.T) {
	t.Parallel()
	s := store(t)
	for _, seed := range []uint64{1, 15} {
		drivertest.Model(t, s, seed, 400)
	}
}

// A try is in its queue for a moment. A claim leaves in two steps if its client does not know that it has the lock's key.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := store(t)
	s.Halfway = true
	drivertest.Concurrent(t, s, 1, 6)
}
