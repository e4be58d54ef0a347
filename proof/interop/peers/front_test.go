//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
	_ "github.com/stilelock/stile/store/sqlite"
)

// A rota sends each request to the next replica.
type rota struct {
	hosts []string
	next  atomic.Int64
}

func (r *rota) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.Host = r.hosts[int(r.next.Add(1))%len(r.hosts)]
	q.Host = q.URL.Host
	return http.DefaultTransport.RoundTrip(q)
}

// replica starts a replica of the lock service over a store, and returns its address.
func replica(t *testing.T, store string) string {
	t.Helper()
	d, err := driver.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s, err := server.New(d, &server.Options{Consul: true, Keys: [][]byte{[]byte(strings.Repeat("k", 32))}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.EndWaits()
		web.Close()
	})
	return web.Listener.Addr().String()
}

// fronts starts two replicas of the lock service over a store, and returns Consul's client of both and stile's client of the
// store.
func fronts(t *testing.T, store string) (*api.Client, *stile.Client) {
	t.Helper()
	balancer := &rota{hosts: []string{replica(t, store), replica(t, store)}}
	c, err := api.NewClient(&api.Config{Address: balancer.hosts[0], HttpClient: &http.Client{Transport: balancer}})
	if err != nil {
		t.Fatal(err)
	}
	own, err := stile.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	return c, own
}

// overStores runs a test with both clients, over SQLite and PostgreSQL.
func overStores(t *testing.T, test func(t *testing.T, c *api.Client, own *stile.Client)) {
	t.Parallel()
	for name, open := range map[string]func() string{
		"sqlite":   func() string { return "sqlite://" + filepath.Join(t.TempDir(), "locks.db") },
		"postgres": func() string { return "postgres://postgres@" + servertest.Postgres(t).Addr + "/postgres" },
	} {
		t.Run(name, func(t *testing.T) {
			c, own := fronts(t, open())
			test(t, c, own)
		})
	}
}

// ended waits until a lock is said to be lost.
func ended(t *testing.T, lost <-chan struct{}) {
	t.Helper()
	servertest.Until(t, "the holder learns of the loss", func() bool {
		select {
		case <-lost:
			return true
		default:
			return false
		}
	})
}

// Lock of Consul's client in Go and stile's mutex exclude each other by the lock service. The holder learns of a break, and
// of the end of its session.
func TestFrontLock(t *testing.T) {
	overStores(t, func(t *testing.T, c *api.Client, own *stile.Client) {
		var inside, turns atomic.Int32
		work := func() {
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d hold the lock", n)
			}
			turns.Add(1)
			inside.Add(-1)
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for range 2 {
					l, err := c.LockOpts(&api.LockOptions{Key: "a/.lock", Value: []byte("me")})
					if err != nil {
						t.Error(err)
						return
					}
					if lost, err := l.Lock(nil); err != nil || lost == nil {
						t.Errorf("a lock = %v, %v", lost, err)
						return
					}
					work()
					if err := l.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				for range 20 {
					if err := own.Mutex("a").Do(t.Context(), func(context.Context) error { work(); return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := turns.Load(); n != 44 {
			t.Errorf("%d turns; want 44", n)
		}
		l, err := c.LockKey("a/.lock")
		if err != nil {
			t.Fatal(err)
		}
		lost, err := l.Lock(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Destroy(); !errors.Is(err, api.ErrLockHeld) {
			t.Errorf("the end of a lock that is held = %v", err)
		}
		other, err := c.LockOpts(&api.LockOptions{Key: "a/.lock", LockTryOnce: true, LockWaitTime: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other.Lock(nil); got != nil || err != nil {
			t.Errorf("a try beside the holder = %v, %v", got, err)
		}
		if err := other.Destroy(); !errors.Is(err, api.ErrLockInUse) {
			t.Errorf("another's end of the lock = %v", err)
		}
		if _, err := own.Break(t.Context(), "a", stile.BreakOptions{Head: true}); err != nil {
			t.Fatal(err)
		}
		ended(t, lost)
	})
}

// A Semaphore of Consul's client shares the permits of a name with stile's.
func TestFrontSemaphore(t *testing.T) {
	overStores(t, func(t *testing.T, c *api.Client, own *stile.Client) {
		semaphore := func(o api.SemaphoreOptions) *api.Semaphore {
			t.Helper()
			o.Prefix, o.Limit = "s", 3
			s, err := c.SemaphoreOpts(&o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		one, two := semaphore(api.SemaphoreOptions{Value: []byte("me")}), semaphore(api.SemaphoreOptions{})
		if got, err := one.Acquire(nil); got == nil || err != nil {
			t.Fatalf("a slot = %v, %v", got, err)
		}
		permit, err := own.Permit("s", 1, 3).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lost, err := two.Acquire(nil)
		if lost == nil || err != nil {
			t.Fatalf("a slot = %v, %v", lost, err)
		}
		try := semaphore(api.SemaphoreOptions{SemaphoreTryOnce: true, SemaphoreWaitTime: 300 * time.Millisecond})
		if got, err := try.Acquire(nil); got != nil || err != nil {
			t.Errorf("a fourth slot = %v, %v", got, err)
		}
		if _, err := own.Permit("s", 1, 3).TryLock(t.Context()); !errors.Is(err, stile.ErrHeld) {
			t.Errorf("a fourth permit = %v", err)
		}
		if err := try.Destroy(); !errors.Is(err, api.ErrSemaphoreInUse) {
			t.Errorf("the end of a semaphore in use = %v", err)
		}
		waits := make(chan error, 1)
		last := semaphore(api.SemaphoreOptions{})
		go func() {
			_, err := last.Acquire(nil)
			waits <- err
		}()
		if err := permit.Unlock(); err != nil {
			t.Error(err)
		}
		if err := <-waits; err != nil {
			t.Errorf("a slot after a permit = %v", err)
		}
		claims, err := own.Show(t.Context(), "s")
		if err != nil || len(claims.Claims) != 3 {
			t.Fatalf("the claims = %+v, %v", claims, err)
		}
		if _, err := own.Break(t.Context(), "s", stile.BreakOptions{Ticket: claims.Claims[1].Ticket}); err != nil {
			t.Fatal(err)
		}
		ended(t, lost)
		for _, s := range []*api.Semaphore{one, last} {
			if err := s.Release(); err != nil {
				t.Error(err)
			}
		}
		if err := one.Destroy(); err != nil {
			t.Errorf("the end of a semaphore = %v", err)
		}
	})
}

// The requests about sessions and keys by themselves.
func TestFrontSession(t *testing.T) {
	overStores(t, func(t *testing.T, c *api.Client, _ *stile.Client) {
		if name, err := c.Agent().NodeName(); err != nil || name == "" {
			t.Errorf("the agent = %q, %v", name, err)
		}
		id, _, err := c.Session().CreateNoChecks(&api.SessionEntry{Name: "n", TTL: "10s", LockDelay: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := c.Session().Info(id, nil)
		if err != nil || s == nil || s.Name != "n" || s.TTL != "10s" || s.LockDelay != time.Second {
			t.Errorf("the session = %+v, %v", s, err)
		}
		if all, _, err := c.Session().List(nil); err != nil || len(all) != 1 || all[0].ID != id {
			t.Errorf("the sessions = %+v, %v", all, err)
		}
		kv := c.KV()
		pair := &api.KVPair{Key: "k/x", Value: []byte{0, 1, 255}, Flags: 1<<64 - 1, Session: id}
		if did, _, err := kv.Acquire(pair, nil); !did || err != nil {
			t.Fatalf("acquire = %v, %v", did, err)
		}
		got, meta, err := kv.Get("k/x", nil)
		if err != nil || got == nil || string(got.Value) != "\x00\x01\xff" || got.Flags != pair.Flags || got.Session != id || got.LockIndex == 0 {
			t.Fatalf("get = %+v, %v", got, err)
		}
		if list, _, err := kv.List("k/", nil); err != nil || len(list) != 1 || list[0].Key != "k/x" {
			t.Errorf("list = %+v, %v", list, err)
		}
		answers := make(chan *api.KVPair, 1)
		go func() {
			got, _, err := kv.Get("k/x", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
			if err != nil {
				t.Error(err)
			}
			answers <- got
		}()
		if did, _, err := kv.DeleteCAS(&api.KVPair{Key: "k/x", ModifyIndex: got.ModifyIndex + 1}, nil); did || err != nil {
			t.Errorf("a deletion with another index = %v, %v", did, err)
		}
		if did, _, err := kv.Release(pair, nil); !did || err != nil {
			t.Errorf("release = %v, %v", did, err)
		}
		if got := <-answers; got != nil {
			t.Errorf("the query for the released key = %+v", got)
		}
		if _, err := kv.Put(&api.KVPair{Key: "k/x"}, nil); err == nil || !strings.Contains(err.Error(), "acquire, release and cas") {
			t.Errorf("a write without a session = %v", err)
		}
		if s, _, err := c.Session().Renew(id, nil); err != nil || s == nil || s.ID != id {
			t.Errorf("renew = %+v, %v", s, err)
		}
		if _, err := c.Session().Destroy(id, nil); err != nil {
			t.Error(err)
		}
		if s, _, err := c.Session().Renew(id, nil); err != nil || s != nil {
			t.Errorf("a renewal of a destroyed session = %+v, %v", s, err)
		}
	})
}

// unlike matches what Consul's agent and the lock service may show differently: their numbers, and the checks of nodes.
var unlike = regexp.MustCompile(`,?"(Node|NodeChecks|ServiceChecks)":("[^"]*"|\[[^]]*\]|null)|\d{10,}|("\w+Index":)\d+`)

// ask sends a request to an agent, and returns what a client sees of the answer, with words in place of ids: an id may have as many
// digits in a row as the numbers that are left out.
func ask(t *testing.T, address, method, path, body string, ids *strings.Replacer) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	index := "no index"
	if res.Header.Get("X-Consul-Index") != "" {
		index = "an index"
	}
	var of any
	if json.Unmarshal(text, &of) != nil {
		return fmt.Sprint(res.StatusCode, ", ", index, ", for people") // an error, or nothing
	}
	text, err = json.Marshal(of) // with the fields in one order
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, ", ", index, ", ", unlike.ReplaceAllString(ids.Replace(string(text)), "$3"))
}

// The lock service answers the requests of Consul's clients as Consul's own agent does.
func TestFrontAnswers(t *testing.T) {
	t.Parallel()
	front := replica(t, "sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
	agents := [...]string{servertest.Consul(t, nil).Addr, front}
	var ids [len(agents)][]string
	for i, at := range agents {
		c, err := api.NewClient(&api.Config{Address: at})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*api.SessionEntry{{Name: "one", TTL: "60s"}, {Name: "two", TTL: "1m", Behavior: "delete", LockDelay: 20 * time.Second}} {
			id, _, err := c.Session().Create(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = append(ids[i], id)
		}
	}
	const nobody = "6a1b1a3c-0000-4000-8000-000000000000"
	for _, step := range []struct{ method, path, body string }{
		{"GET", "kv/k", ""},
		{"GET", "kv/k?recurse", ""},
		{"PUT", "kv/k?acquire=ONE&flags=7", "v"},
		{"GET", "kv/k", ""},
		{"GET", "kv/?recurse", ""},
		{"GET", "kv/k?index=1&wait=5m", ""},
		{"PUT", "kv/k?acquire=TWO", ""},
		{"PUT", "kv/k?acquire=ONE&flags=8", "w"},
		{"GET", "kv/k?consistent", ""},
		{"PUT", "kv/k?release=TWO", ""},
		{"PUT", "kv/k?acquire=" + nobody, ""},
		{"PUT", "kv/k?acquire=", ""},
		{"PUT", "kv/k?acquire=ONE&release=ONE", ""},
		{"PUT", "kv/none?release=ONE", ""},
		{"PUT", "kv/?acquire=ONE", ""},
		{"POST", "kv/k", ""},
		{"DELETE", "kv/none", ""},
		{"DELETE", "kv/none?cas=7", ""},
		{"DELETE", "kv/k?cas=1", ""},
		{"GET", "session/info/ONE", ""},
		{"GET", "session/info/TWO", ""},
		{"GET", "session/info/" + nobody, ""},
		{"GET", "session/node/nowhere", ""},
		{"PUT", "session/renew/ONE", ""},
		{"PUT", "session/renew/" + nobody, ""},
		{"PUT", "session/create", `{`},
		{"DELETE", "kv/k", ""},
		{"GET", "kv/k", ""},
		{"PUT", "kv/k?acquire=TWO", ""},
		{"PUT", "session/destroy/TWO", ""},
		{"GET", "kv/k", ""},
		{"PUT", "kv/k?acquire=ONE", ""}, // in the lock-delay
		{"PUT", "session/destroy/TWO", ""},
		{"PUT", "session/destroy/ONE", ""},
		{"GET", "session/list", ""},
	} {
		var saw [len(agents)]string
		for i, at := range agents {
			there := strings.NewReplacer("ONE", ids[i][0], "TWO", ids[i][1])
			back := strings.NewReplacer(ids[i][0], "ONE", ids[i][1], "TWO")
			saw[i] = ask(t, at, step.method, there.Replace(step.path), step.body, back)
		}
		if saw[0] != saw[1] {
			t.Errorf("%s %s %s:\nConsul answers  %s\nthe service     %s", step.method, step.path, step.body, saw[0], saw[1])
		}
	}
}
