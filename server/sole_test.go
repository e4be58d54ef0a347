package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// session returns a client of a store in which claims live in the session of their client, which no lease outlasts.
func session(store *memory.Store) *fake {
	f := &fake{
		Driver: store.Driver(), left: make(chan driver.Claim, 10),
		traits: func(t *driver.Traits) { t.InSession, t.Session = true, time.Minute },
	}
	f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		p, err := f.Driver.Enter(ctx, c)
		p.TTL = min(p.TTL, time.Minute)
		return p, err
	}
	return f
}

// ends ends the claims that hold some names, as the end of a session does.
func ends(t *testing.T, store *memory.Store, names ...string) {
	t.Helper()
	admin := store.Driver()
	defer admin.Close()
	for _, name := range names {
		if _, err := admin.Break(t.Context(), &driver.BreakRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}

// Trap: a server cannot renew the claims of another server's session. So one server serves a store with sessions, and others
// stand by: they say which one serves, and begin when its claims are gone.
func TestOneServerForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		first, transport := serving(t, session(store))
		u := &user{t, &http.Client{Transport: transport}}
		a := u.gets(200, "", "PUT", "a", "")
		long := u.gets(200, "", "PUT", "long", "")
		long = u.gets(200, "", "POST", "long?ttl=2h", long.Handle)
		other := newUser(t, session(store))
		b := other.gets(503, "unreachable", "PUT", "b", "")
		if b.Outcome != "unsent" || !strings.Contains(b.text, "serves it, as process") {
			t.Errorf("the other server answers %s; want who serves, and that the request was not passed on", b.text)
		}
		other.gets(503, "unreachable", "POST", "a", a.Handle)
		if status, answer, err := postBy(t.Context(), other.by, inBubble+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)})); err != nil || status != 503 || !strings.Contains(string(answer), "stands by") {
			t.Errorf("the other server answers %d %s, %v; want that it stands by", status, answer, err)
		}
		time.Sleep(time.Hour)
		other.gets(503, "unreachable", "PUT", "b", "")
		for by, want := range map[*user]int{u: 200, other: 503} {
			if status, text := probes(t, by.by, "GET", "/readyz"); status != want {
				t.Errorf("/readyz = %d %s; want %d", status, text, want)
			}
		}
		first.EndWaits()
		time.Sleep(30 * time.Second)
		other.gets(503, "unreachable", "PUT", "b", "") // the session lives, and so may a client's claim
		u.gets(200, "", "POST", "long", long.Handle)
		ends(t, store, "long", "stile-serve")
		synctest.Wait()
		other.gets(200, "", "PUT", "b", "")
		if status, text := probes(t, other.by, "GET", "/readyz"); status != 200 {
			t.Errorf("/readyz of the other server = %d %s; want 200", status, text)
		}
		time.Sleep(time.Minute)
		u.gets(503, "unreachable", "PUT", "c", "")
	})
}

// A server that has lost its session serves no more until it has the lock again.
func TestOneServerLosesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		f := session(store)
		u := newUser(t, f)
		u.gets(200, "", "PUT", "a", "")
		other := newUser(t, session(store))
		other.gets(503, "unreachable", "PUT", "b", "")
		ends(t, store, "stile-serve")
		synctest.Wait()
		other.gets(200, "", "PUT", "b", "")
		b := u.gets(503, "unreachable", "PUT", "b", "")
		if !strings.Contains(b.text, "serves it") {
			t.Errorf("the server without its lock answers %s; want who serves", b.text)
		}
	})
}

// A server over a store with sessions says whether it serves, and who does otherwise, once for each change.
func TestStandbyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		told := make(chan string, 10)
		begin := func(name string) *server.Server {
			return newServer(t, session(store), &server.Options{Standby: func(because error) { told <- fmt.Sprint(name, ": ", because) }})
		}
		hears := func(wants ...string) {
			t.Helper()
			time.Sleep(time.Hour)
			for _, want := range wants {
				select {
				case got := <-told:
					if !strings.HasPrefix(got, want) {
						t.Errorf("told %q; want %q", got, want)
					}
				default:
					t.Errorf("told nothing; want %q", want)
				}
			}
			if len(told) > 0 {
				t.Errorf("told %q too", <-told)
			}
		}
		first := begin("first")
		hears("first: <nil>")
		begin("second")
		hears("second: server.test serves it, as process")
		first.EndWaits()
		hears()
		ends(t, store, "stile-serve")
		hears("second: <nil>")
	})
}

// Trap: whoever takes or breaks the lock of the one server lets a second one begin.
func TestNobodyTakesTheLockOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const own = "stile-serve"
		store := memory.NewStore()
		s := newServer(t, session(store), &server.Options{Consul: true, Keys: replicaKeys, Page: true})
		u := &user{t, &http.Client{Transport: servingBy(t, s)}}
		u.gets(200, "", "PUT", "a", "")
		u.gets(403, "forbidden", "PUT", own, "")
		u.gets(403, "forbidden", "PUT", own+"?shared=true&wait=1s", "")
		c := claim("x", 0)
		c.Name = own
		for path, q := range map[string]any{
			api.Enter: &api.EnterRequest{Claim: c}, api.Break: &api.BreakRequest{Name: own},
			api.Break + "?": &api.BreakRequest{Name: own, Ask: true},
		} {
			status, answer, err := postBy(t.Context(), u.by, inBubble+path, body(t, q))
			if err != nil || status != 403 || !strings.Contains(string(answer), "belongs to the lock service") {
				t.Errorf("%s = %d %s, %v; want that the lock belongs to the lock service", path, status, answer, err)
			}
		}
		asks := func(method, path, text string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), method, inBubble+path, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			res, err := u.by.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			answer, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(answer)
		}
		_, text := asks("PUT", "/v1/session/create", `{"TTL": "10s"}`)
		_, id, _ := strings.Cut(text, `:"`)
		id, _, _ = strings.Cut(id, `"`)
		if status, text := asks("PUT", "/v1/kv/"+own+"?acquire="+id, ""); id == "" || status != 403 {
			t.Errorf("Consul's acquire in the session %q = %d %s; want 403", id, status, text)
		}
		if status, text := asks("GET", "/", ""); status != 200 || strings.Contains(text, own) || !strings.Contains(text, `"a"`) {
			t.Errorf("the page = %d %s; want the lock a, and not %s", status, text, own)
		}
		if all := queue(t, store.Driver(), own); len(all) != 1 || !all[0].Holds {
			t.Errorf("the claims of %s are %+v; want the server's", own, all)
		}
	})
}

// Trap: a request arrives while its server may serve, and the store answers it in a later session, beside another server.
func TestOneServerGrantsNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		f := session(store)
		enter, goes := f.enter, make(chan struct{})
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			if c.Name != "stile-serve" {
				<-goes
			}
			return enter(ctx, c)
		}
		u := newUser(t, f)
		u.gets(200, "", "GET", "b", "") // the server serves
		put := u.begins(t.Context(), "PUT", "b", "")
		answers := make(chan string, 2)
		for id, ticket := range map[string]int64{"new": 0, "gone": 7} {
			go func() {
				status, answer, err := postBy(t.Context(), u.by, inBubble+api.Enter, body(t, &api.EnterRequest{Claim: claim(id, ticket)}))
				answers <- fmt.Sprint(status, string(answer), err)
			}()
			synctest.Wait()
		}
		other := newUser(t, session(store))
		other.gets(503, "unreachable", "PUT", "c", "")
		ends(t, store, "stile-serve")
		synctest.Wait()
		other.gets(200, "", "PUT", "c", "")
		close(goes)
		if a := <-put; a.status != 503 || a.Outcome != "unknown" || !strings.Contains(a.text, "stands by") {
			t.Errorf("a late PUT got %d %s; want 503, and an unknown outcome", a.status, a.text)
		}
		for range 2 {
			if a := <-answers; !strings.HasPrefix(a, "503") || !strings.Contains(a, `"unknown"`) || !strings.Contains(a, "stands by") {
				t.Errorf("a late Enter got %s; want 503, and an unknown outcome", a)
			}
		}
		if len(f.left) > 0 {
			t.Errorf("the server removed the claim %+v; another server may have entered it", <-f.left)
		}
	})
}

// Consul's clients are granted nothing late either: they ask again.
func TestConsulIsGrantedNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		f := session(store)
		enter, goes := f.enter, make(chan struct{})
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			if c.Name == "a" {
				<-goes
			}
			return enter(ctx, c)
		}
		s := newServer(t, f, &server.Options{Consul: true, Keys: replicaKeys})
		by := servingBy(t, s)
		put := func(path, body string) string {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, inBubble+path, strings.NewReader(body))
			if err != nil {
				return err.Error()
			}
			res, err := by.RoundTrip(r)
			if err != nil {
				return err.Error()
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			return fmt.Sprint(res.StatusCode, string(text), err)
		}
		_, id, _ := strings.Cut(put("/v1/session/create", `{"TTL": "1h"}`), `:"`)
		id, _, _ = strings.Cut(id, `"`)
		answer := make(chan string, 1)
		go func() { answer <- put("/v1/kv/a?acquire="+id, "") }()
		synctest.Wait()
		other := newUser(t, session(store))
		other.gets(503, "unreachable", "PUT", "c", "")
		ends(t, store, "stile-serve")
		synctest.Wait()
		other.gets(200, "", "PUT", "c", "")
		close(goes)
		if a := <-answer; !strings.HasPrefix(a, "500") || !strings.Contains(a, "stands by") {
			t.Errorf("a late acquire got %s; want 500, and that the server stands by", a)
		}
	})
}

// The clients of a server share its session: each can renew and release what another has.
func TestTraitsOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t, session(memory.NewStore()))
		if status, answer, err := postBy(t.Context(), u.by, inBubble+api.Traits, "{}"); err != nil || status != 200 ||
			!strings.Contains(string(answer), `"in_session":false`) || !strings.Contains(string(answer), "one session of the lock service") {
			t.Errorf("the traits are %d %s, %v; want no sessions of clients, and a note", status, answer, err)
		}
	})
}
