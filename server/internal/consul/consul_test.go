package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/store/memory"
)

// A user is a caller with rights on names.
type user struct {
	name        string
	locks, sees func(name string) bool
	revoked     *atomic.Bool
}

func every(string) bool { return true }

var root = user{"", every, every, new(atomic.Bool)}

func (u user) Principal() string { return u.name }
func (u user) may(ok bool) error {
	if !ok {
		return refuse(http.StatusForbidden, "%s may not", u.name)
	}
	return nil
}
func (u user) MayClaim(name string, _, _ int64) error { return u.may(u.locks(name)) }
func (u user) MayLeave(name string) error             { return u.may(u.locks(name)) }
func (u user) Locks() bool                            { return u.locks("a") }
func (u user) Reads(name string) bool                 { return u.sees(name) }
func (u user) Knows(name string) bool                 { return u.sees(name) || u.locks(name) }
func (u user) KnowsSome(prefix string) bool {
	return slices.ContainsFunc([]string{prefix, "out/a"}, func(name string) bool { return strings.HasPrefix(name, prefix) && u.Knows(name) })
}
func (u user) Note(*Refusal)          {}
func (u user) Again() (Caller, error) { return u, u.may(!u.revoked.Load()) }

// A client sends requests to a replica.
type client struct {
	t *testing.T
	*Front
	user
	end  context.CancelFunc // of the replica's waits
	full *atomic.Bool       // the replica has no room for further waits
}

var secret = []byte(strings.Repeat("k", 32))

// replica returns a client of a new replica over a store.
func replica(t *testing.T, d driver.Driver, keys ...[]byte) *client {
	t.Helper()
	ending, end := context.WithCancel(t.Context())
	full := new(atomic.Bool)
	t.Cleanup(end)
	if keys == nil {
		keys = [][]byte{secret}
	}
	lister, _ := d.(driver.Lister)
	watcher, _ := d.(driver.Watcher)
	f, err := New(&Options{
		Driver: d, Lister: lister, Watcher: watcher, Keys: keys, Heed: func(error) {}, Ending: ending,
		Begin: func(context.Context, *driver.Claim) (func(), error) { return func() {}, nil },
		Room:  func(context.Context, string) (func(), bool) { return func() {}, !full.Load() },
		Turn:  func(context.Context) (func(), error) { return func() {}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, f, root, end, full}
}

func (c *client) as(u user) *client {
	other := *c
	other.user = u
	return &other
}

// do sends a request: a method and a path with its parameters.
func (c *client) do(what, body string) *Answer {
	c.t.Helper()
	method, target, _ := strings.Cut(what, " ")
	u, err := url.Parse(target)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.Answer(c.t.Context(), &Request{
		Caller: c.user, Method: method, Path: u.Path, Query: u.Query(), Body: []byte(body), Sender: record.Holder{Program: "test"},
	})
}

// says sends a request, and wants an answer with a text in it.
func (c *client) says(what, body string, status int, text string) {
	c.t.Helper()
	if a := c.do(what, body); a.Status != status || !strings.Contains(string(a.Text), text) {
		c.t.Errorf("%s = %d %s; want %d %s", what, a.Status, a.Text, status, text)
	}
}

// open makes a session.
func (c *client) open(text string) string {
	c.t.Helper()
	var s struct{ ID string }
	if a := c.do("PUT /v1/session/create", text); a.Status != http.StatusOK || json.Unmarshal(a.Text, &s) != nil {
		c.t.Fatalf("the session %s = %d %s", text, a.Status, a.Text)
	}
	return s.ID
}

// pairs returns keys, and the index of the answer.
func (c *client) pairs(what string) (all []pair, index uint64) {
	c.t.Helper()
	a := c.do("GET /v1/kv/"+what, "")
	if a.Status == http.StatusNotFound {
		return nil, a.Index
	}
	if a.Status != http.StatusOK || json.Unmarshal(a.Text, &all) != nil {
		c.t.Fatalf("%s = %d %s", what, a.Status, a.Text)
	}
	return all, a.Index
}

// holder returns the session that holds a key; "" if the key is not there.
func (c *client) holder(key string) string {
	c.t.Helper()
	if all, _ := c.pairs(key); len(all) > 0 {
		return all[0].Session
	}
	return ""
}

const (
	short   = `{"Name": "nightly", "TTL": "10s"}`
	undelay = `{"Name": "nightly", "TTL": "10s", "LockDelay": "0s"}`
)

// A session holds a key, with its flags and its value, until it releases it. Others are told who holds.
func TestKey(t *testing.T) {
	c := replica(t, memory.New())
	one, two := c.open(short), c.open(short)
	if got, index := c.pairs("a/.lock"); got != nil || index != absent {
		t.Errorf("a key that nobody holds = %v, index %d", got, index)
	}
	c.says("PUT /v1/kv/a/.lock?acquire="+one+"&flags=7", "some text", 200, "true")
	c.says("PUT /v1/kv/a/.lock?acquire="+two, "", 200, "false")
	c.says("PUT /v1/kv/a/.lock?release="+two, "", 200, "false")
	c.says("PUT /v1/kv/a?acquire="+one, "", 200, "false") // the same lock
	c.says("PUT /v1/kv/a?release="+one, "", 200, "false")
	got, index := c.pairs("a/.lock")
	if len(got) != 1 || got[0].Session != one || got[0].Flags != 7 || string(got[0].Value) != "some text" || got[0].ModifyIndex != index {
		t.Errorf("the key = %+v, index %d", got, index)
	}
	c.says("PUT /v1/kv/a/.lock?acquire="+one+"&flags=8", "more", 200, "true")
	again, next := c.pairs("a/.lock")
	if next == index || again[0].Flags != 8 || string(again[0].Value) != "more" || again[0].LockIndex != got[0].LockIndex {
		t.Errorf("the key with another value = %+v, index %d; want the same hold", again, next)
	}
	c.says("DELETE /v1/kv/a/.lock?cas="+fmt.Sprint(index), "", 200, "false")
	c.says("PUT /v1/kv/a/.lock?release="+one, "", 200, "true")
	c.says("PUT /v1/kv/a/.lock?release="+one, "", 200, "false")
	c.says("PUT /v1/kv/a/.lock?acquire="+two, "", 200, "true")
	if later, _ := c.pairs("a/.lock"); later[0].LockIndex <= got[0].LockIndex {
		t.Errorf("the token %d follows %d", later[0].LockIndex, got[0].LockIndex)
	}
	c.says("DELETE /v1/kv/a/.lock", "", 200, "true")
	c.says("DELETE /v1/kv/a/.lock?cas=5", "", 200, "true") // it is not there, and so for Consul
	if who := c.holder("a/.lock"); who != "" {
		t.Errorf("a deleted key is held by %s", who)
	}
	if n := len(c.record(two).Keys); n != 0 {
		t.Errorf("the session still lists %d keys", n)
	}
}

// record returns a session.
func (c *client) record(id string) *session {
	c.t.Helper()
	s, err := c.look(c.t.Context(), id)
	if err != nil || s == nil {
		c.t.Fatalf("the session %s: %v, %v", id, s, err)
	}
	return s
}

// A claim of stile and a key of a session exclude each other, and Consul's clients see its token.
func TestBesideStile(t *testing.T) {
	d := memory.New()
	c := replica(t, d)
	s := c.open(undelay)
	own := &driver.Claim{Name: "a", ID: "own", Client: "x", Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour}
	p, err := d.Enter(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	c.says("PUT /v1/kv/a/.lock?acquire="+s, "", 200, "false")
	got, _ := c.pairs("a/.lock")
	if len(got) != 1 || !isID(got[0].Session) || got[0].Session == s || got[0].Flags != lockFlag ||
		got[0].LockIndex != uint64(p.Ticket)*engine.Turns {
		t.Errorf("the key = %+v; want a stranger's lock with the ticket %d", got, p.Ticket)
	}
	c.says("DELETE /v1/kv/a/.lock", "", 409, "stile break")
	for prefix, want := range map[string]int{"a": 1, "": 1, "a/": 1, "a/.l": 1, "a/x": 0, "b": 0} {
		if all, _ := c.pairs(prefix + "?recurse"); len(all) != want || want > 0 && all[0].Key != "a/.lock" {
			t.Errorf("the keys below %q = %+v", prefix, all)
		}
	}
	if err := d.Leave(t.Context(), &driver.Release{Claim: own}); err != nil {
		t.Fatal(err)
	}
	c.says("PUT /v1/kv/a/.lock?acquire="+s, "", 200, "true")
	own.ID = "own2"
	if p, err := d.Enter(t.Context(), own); err != nil || p.Holds {
		t.Errorf("a claim beside a session = %+v, %v", p, err)
	}
	queues, err := d.List(t.Context(), &driver.Query{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if h := record.Read(queues[0].Claims[0].Record); h.Owner != "nightly" || h.Program != "test" {
		t.Errorf("the holder for people is %+v", h)
	}
	c.says("PUT /v1/kv/a/.lock?release="+s, "", 200, "true")
	c.says("PUT /v1/kv/a/.lock?acquire="+s, "", 200, "false") // the claim that waited comes first
}

// A session ends after twice its TTL without a renewal, and its keys with it; then the lock-delay keeps others out.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica(t, memory.New())
		one, two := c.open(short), c.open(`{"TTL": "24h"}`)
		c.says("PUT /v1/kv/a/.lock?acquire="+one, "", 200, "true")
		c.says("PUT /v1/kv/b?acquire="+one, "", 200, "true")
		for range 5 {
			time.Sleep(18 * time.Second)
			c.says("PUT /v1/session/renew/"+one, "", 200, `"TTL":"10s"`)
		}
		time.Sleep(19 * time.Second)
		if c.holder("a/.lock") != one || c.holder("b") != one {
			t.Error("a renewed session has lost its keys")
		}
		time.Sleep(2 * time.Second)
		if who := c.holder("a/.lock") + c.holder("b"); who != "" {
			t.Errorf("%s holds after its end", who)
		}
		c.says("PUT /v1/session/renew/"+one, "", 404, "not found")
		c.says("PUT /v1/kv/a/.lock?acquire="+one, "", 500, "invalid session")
		c.says("GET /v1/session/info/"+one, "", 200, "[]")
		c.says("PUT /v1/kv/a/.lock?acquire="+two, "", 200, "false")
		time.Sleep(defaultDelay)
		c.says("PUT /v1/kv/a/.lock?acquire="+two, "", 200, "true")
	})
}

// A destroyed session gives up its keys. Their locks stay closed for the lock-delay.
func TestDestroy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica(t, memory.New())
		one, two := c.open(short), c.open(`{"TTL": "1h"}`)
		c.says("PUT /v1/kv/a?acquire="+one, "", 200, "true")
		c.says("PUT /v1/session/destroy/"+one, "", 200, "true")
		c.says("PUT /v1/session/destroy/"+one, "", 200, "true")
		if who := c.holder("a"); who != "" {
			t.Errorf("%s holds", who)
		}
		c.says("PUT /v1/kv/a?acquire="+two, "", 200, "false")
		time.Sleep(defaultDelay)
		c.says("PUT /v1/kv/a?acquire="+two, "", 200, "true")
	})
}

// A query with an index waits until the answer is another one, its wait is over, its caller has no rights any more, or the
// replica ends.
func TestBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		c, other := replica(t, d), replica(t, d)
		s := c.open(undelay)
		began := time.Now()
		ask := func(c *client, what string) (<-chan *Answer, func() time.Duration) {
			answers := make(chan *Answer, 1)
			go func() { answers <- c.do("GET "+what, "") }()
			synctest.Wait()
			if len(answers) > 0 {
				t.Fatalf("%s does not wait: %+v", what, <-answers)
			}
			began = time.Now()
			return answers, func() time.Duration { return time.Since(began) }
		}
		answers, _ := ask(c, "/v1/kv/a?index=1")
		other.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
		held := <-answers
		if held.Status != 200 || time.Since(began) != 0 {
			t.Errorf("a query for a key that comes = %+v after %v", held, time.Since(began))
		}
		at := fmt.Sprintf("/v1/kv/a?index=%d", held.Index)
		answers, took := ask(c, at+"&wait=7s")
		if a := <-answers; a.Index != held.Index || took() != 7*time.Second {
			t.Errorf("a query over = %+v after %v", a, took())
		}
		c.full.Store(true)
		answers, took = ask(c, at+"&wait=7s")
		if a := <-answers; a.Index != held.Index || took() != shortWait {
			t.Errorf("a query without room = %+v after %v", a, took())
		}
		c.full.Store(false)
		answers, took = ask(c, at)
		waiter := &driver.Claim{Name: "a", ID: "x", Client: "x", Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour}
		if _, err := d.Enter(t.Context(), waiter); err != nil { // it changes nothing for clients of Consul
			t.Fatal(err)
		}
		if synctest.Wait(); len(answers) > 0 {
			t.Errorf("a waiter ends the query")
		}
		if err := d.Leave(t.Context(), &driver.Release{Claim: waiter}); err != nil {
			t.Fatal(err)
		}
		other.says("PUT /v1/kv/a?release="+s, "", 200, "true")
		if a := <-answers; a.Status != 404 || a.Index != absent || took() != 0 {
			t.Errorf("a query for a key that goes = %+v after %v", a, took())
		}
		other.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
		_, index := c.pairs("a")
		if index == held.Index {
			t.Errorf("another hold of the session has the same index")
		}
		at = fmt.Sprintf("/v1/kv/a?index=%d", index)
		answers, took = ask(c, at)
		time.Sleep(15 * time.Second)
		c.says("PUT /v1/session/renew/"+s, "", 200, "")
		if a := <-answers; a.Status != 404 || took() != 35*time.Second {
			t.Errorf("a query for a key whose session ends = %+v after %v", a, took())
		}
		some := c.as(user{"some", every, every, new(atomic.Bool)})
		answers, _ = ask(some, "/v1/kv/a?index=1")
		some.revoked.Store(true)
		time.Sleep(lookAround)
		if a := <-answers; a.Status != 403 {
			t.Errorf("a query of a caller without rights = %+v", a)
		}
		answers, took = ask(c, "/v1/kv/a?index=1")
		c.end()
		if a := <-answers; a.Status != 404 || a.Index != absent || took() != 0 {
			t.Errorf("a query at the end of the replica = %+v after %v", a, took())
		}
	})
}

// The queries for sessions wait too, and show only the caller's.
func TestSessionQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica(t, memory.New())
		other := c.as(user{"other", every, every, new(atomic.Bool)})
		s := c.open(`{"Name": "n", "TTL": "10s", "Behavior": "delete", "LockDelay": 5, "Node": "stile", "Checks": ["serfHealth"]}`)
		info := c.do("GET /v1/session/info/"+s, "")
		var all []entry
		if json.Unmarshal(info.Text, &all) != nil || len(all) != 1 || all[0].ID != s || all[0].Name != "n" || all[0].Node != node ||
			all[0].LockDelay != 5*time.Second || all[0].Behavior != behaviorDelete || all[0].TTL != "10s" || all[0].CreateIndex == 0 {
			t.Errorf("the session = %s", info.Text)
		}
		c.says("GET /v1/session/list", "", 200, s)
		c.says("GET /v1/session/node/stile", "", 200, s)
		c.says("GET /v1/session/node/another", "", 200, "[]")
		other.says("GET /v1/session/list", "", 200, "[]")
		other.says("GET /v1/session/info/"+s, "", 200, "[]")
		for _, what := range []string{"info/" + s, "list"} {
			at := c.do("GET /v1/session/"+what, "").Index
			answers := make(chan *Answer, 1)
			go func() { answers <- c.do(fmt.Sprintf("GET /v1/session/%s?index=%d", what, at), "") }()
			if synctest.Wait(); len(answers) > 0 {
				t.Fatalf("%s does not wait", what)
			}
			c.says("PUT /v1/session/destroy/"+s, "", 200, "true")
			if a := <-answers; string(a.Text) != "[]" {
				t.Errorf("%s after its end = %s", what, a.Text)
			}
			s = c.open(short)
		}
	})
}

// Any replica with the key serves the sessions of another. A new key serves those of the previous one beside it.
func TestReplicas(t *testing.T) {
	d := memory.New()
	newer := []byte(strings.Repeat("n", 32))
	one, two, strange, next := replica(t, d), replica(t, d), replica(t, d, newer), replica(t, d, newer, secret)
	s := one.open(undelay)
	two.says("PUT /v1/kv/a/.lock?acquire="+s, "", 200, "true")
	one.says("PUT /v1/kv/a/.lock?acquire="+s, "", 200, "true")
	strange.says("PUT /v1/session/renew/"+s, "", 500, "lacks the key")
	strange.says("PUT /v1/kv/a/.lock?release="+s, "", 500, "lacks the key")
	next.says("PUT /v1/session/renew/"+s, "", 200, s)
	_, index := one.pairs("a/.lock")
	if _, other := two.pairs("a/.lock"); other != index {
		t.Errorf("the indexes of two replicas are %d and %d", index, other)
	}
	next.says("PUT /v1/kv/a/.lock?release="+s, "", 200, "true")
	strange.says("GET /v1/session/info/"+next.open(short), "", 200, "nightly")
	if _, err := New(&Options{Driver: d, Lister: d}); err == nil {
		t.Error("a front without a key")
	}
}

// An acquired key whose answer was lost is still the session's: a repeated request finds it, and renewals renew it, even if
// the session does not list it.
func TestLostAnswer(t *testing.T) {
	d := memory.New()
	c := replica(t, d)
	s := c.open(undelay)
	c.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
	first := c.record(s).Keys["a"]
	if err := c.forget(t.Context(), c.record(s), "a", first); err != nil {
		t.Fatal(err)
	}
	c.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
	if got := c.record(s).Keys["a"]; got != first {
		t.Errorf("the session lists %v; want %v", got, first)
	}
	// And a claim that did not enter after it was listed does not stand in the way.
	if err := c.amend(t.Context(), c.record(s), func(s *session) { s.Keys["b"] = "x" }); err != nil {
		t.Fatal(err)
	}
	c.says("PUT /v1/session/renew/"+s, "", 200, s)
	c.says("PUT /v1/kv/b?acquire="+s, "", 200, "true")
	if got := c.record(s).Keys["b"]; got == "x" {
		t.Errorf("the id of a claim is used for another")
	}
	// Two requests may change a session at once.
	stale := c.record(s)
	c.says("PUT /v1/kv/c?acquire="+s, "", 200, "true")
	if err := c.amend(t.Context(), stale, func(s *session) { s.Keys["d"] = "y" }); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(c.record(s).Keys)); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the session lists %v", got)
	}
}

// A session is its principal's, though every reader sees its id. A caller without the right to read sees only that a key is
// held.
func TestPrincipals(t *testing.T) {
	d := &broken{Driver: memory.New()}
	c := replica(t, d)
	below := func(prefix string) func(string) bool {
		return func(name string) bool { return strings.HasPrefix(name, prefix) }
	}
	none := below("-")
	ann, bob := c.as(user{"ann", every, every, new(atomic.Bool)}), c.as(user{"bob", every, every, new(atomic.Bool)})
	blind, out := c.as(user{"blind", every, none, new(atomic.Bool)}), c.as(user{"out", below("out/"), none, new(atomic.Bool)})
	s := ann.open(short)
	ann.says("PUT /v1/kv/a?acquire="+s, "text", 200, "true")
	for _, what := range []string{"session/renew/" + s, "session/destroy/" + s, "kv/b?acquire=" + s, "kv/a?release=" + s} {
		bob.says("PUT /v1/"+what, "", 403, "another principal")
	}
	bob.says("DELETE /v1/kv/a", "", 403, "another principal")
	bob.says("GET /v1/kv/a", "", 200, s)
	if got, _ := blind.pairs("a"); len(got) != 1 || got[0].Value != nil || got[0].Session == s || got[0].Session == "" {
		t.Errorf("a caller who may not read sees %+v", got)
	}
	out.says("GET /v1/kv/a", "", 403, "Permission denied")
	out.says("PUT /v1/session/create", short, 403, "no right to lock")
	out.says("PUT /v1/kv/a?acquire="+s, "", 403, "may not")
	out.says("PUT /v1/kv/a?release="+s, "", 403, "may not")
	if got, _ := out.pairs("?recurse"); got != nil {
		t.Errorf("a caller without rights finds %+v", got)
	}
	lists := d.lists.Load()
	out.says("GET /v1/kv/a?recurse", "", 403, "no right to lock or read \"a\"")
	out.says("GET /v1/session/list", "", 403, "no right to lock")
	if n := d.lists.Load() - lists; n > 0 {
		t.Errorf("queries of a caller without rights ask the store %d times", n)
	}
}

// The ids of claims depend on the key, and on each of their parts.
func TestIDs(t *testing.T) {
	a, b := newKey(secret), newKey([]byte(strings.Repeat("n", 32)))
	ids := map[string]bool{}
	for _, id := range []string{
		a.id("key", "s", "n", "x"), b.id("key", "s", "n", "x"), a.id("key", "s", "n", "y"), a.id("key", "sn", "", "x"), a.id("session", "s"),
	} {
		if len(id) != 26 || ids[id] {
			t.Errorf("the id %q is there twice, or too short", id)
		}
		ids[id] = true
	}
	if a.name == b.name || strings.Contains(a.name, "k") {
		t.Errorf("the keys are called %q and %q", a.name, b.name)
	}
}

// A renewal does not renew keys that the caller may no longer have.
func TestWithdrawnRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica(t, memory.New())
		s := c.open(undelay)
		c.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
		c.says("PUT /v1/kv/b?acquire="+s, "", 200, "true")
		c.locks = func(name string) bool { return name == "b" }
		time.Sleep(15 * time.Second)
		c.says("PUT /v1/session/renew/"+s, "", 200, s)
		time.Sleep(15 * time.Second)
		if a, b := c.holder("a"), c.holder("b"); a != "" || b != s {
			t.Errorf("%q holds a, and %q holds b", a, b)
		}
	})
}

// A key that others hold costs the store no change. If another client is faster after that look, nothing is left of the
// attempt.
func TestHeldKeyCostsNoChange(t *testing.T) {
	d := &broken{Driver: memory.New()}
	c := replica(t, d)
	one, two := c.open(short), c.open(short)
	c.says("PUT /v1/kv/a?acquire="+one, "", 200, "true")
	enters, amends := d.enters.Load(), d.amends.Load()
	c.says("PUT /v1/kv/a?acquire="+two, "", 200, "false")
	if d.enters.Load() != enters || d.amends.Load() != amends {
		t.Errorf("a key that others hold makes %d claims and %d changes", d.enters.Load()-enters, d.amends.Load()-amends)
	}
	d.blind = true
	c.says("PUT /v1/kv/a?acquire="+two, "", 200, "false")
	if n := len(c.record(two).Keys); d.enters.Load() == enters || n != 0 {
		t.Errorf("after %d claims the session lists %d keys", d.enters.Load()-enters, n)
	}
	permit := &driver.Claim{Name: "p", ID: "own", Client: "x", Weight: 1, Capacity: 2, TTL: time.Hour, Wait: time.Hour}
	if _, err := d.Enter(t.Context(), permit); err != nil {
		t.Fatal(err)
	}
	c.says("PUT /v1/kv/p?acquire="+two, "", 200, "false")
	d.gone = true
	c.says("PUT /v1/session/renew/"+one, "", 404, "not found")
	c.says("PUT /v1/kv/b?acquire="+one, "", 500, "invalid session")
}

// A query that waits looks at the store only after a change of its key. If the store cannot watch, the query looks by itself.
func TestWaitingCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &broken{Driver: memory.New()}
		c := replica(t, d)
		lists := d.lists.Load()
		c.says("GET /v1/kv/a?index=1&wait=1m", "", 404, "")
		if n := d.lists.Load() - lists; n > 3 { // before the wait, when the watch begins, and after it
			t.Errorf("a wait of a minute lists %d times", n)
		}
		s := c.open(short)
		blind := replica(t, struct {
			driver.Driver
			driver.Lister
		}{d, d})
		answers := make(chan *Answer, 1)
		go func() { answers <- blind.do("GET /v1/kv/a?index=1", "") }()
		synctest.Wait()
		c.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
		began := time.Now()
		if a := <-answers; a.Status != 200 || time.Since(began) > poll {
			t.Errorf("a query without a watch = %+v after %v", a, time.Since(began))
		}
	})
}

// The record of a session and of a key has a bound, which is told.
func TestBounds(t *testing.T) {
	c := replica(t, memory.New())
	s := c.open(short)
	c.says("PUT /v1/kv/a?acquire="+s, strings.Repeat("x", driver.MaxRecord), 413, "the store keeps 4096 bytes")
	c.says("PUT /v1/kv/a?acquire="+s, strings.Repeat("x", 2500), 200, "true")
	taken := 0
	for ; taken < 200; taken++ {
		a := c.do(fmt.Sprintf("PUT /v1/kv/%s%d?acquire=%s", strings.Repeat("n", 200), taken, s), "")
		if a.Status == 413 {
			break
		}
		if string(a.Text) != "true" {
			t.Fatalf("%d %s", a.Status, a.Text)
		}
	}
	if taken < 10 || taken == 200 {
		t.Errorf("a session has %d keys", taken)
	}
	c.says("PUT /v1/session/renew/"+s, "", 200, s)
	c.open(fmt.Sprintf(`{"TTL": "1m", "Name": %q}`, strings.Repeat("ä\n", 3000)))
}

// A session has a bounded number of keys. One more is refused, until another one is released.
func TestKeysOfSession(t *testing.T) {
	c := replica(t, memory.New())
	s := c.open(undelay)
	for i := range maxKeys {
		c.says(fmt.Sprintf("PUT /v1/kv/%d?acquire=%s", i, s), "", 200, "true")
	}
	c.says("PUT /v1/kv/more?acquire="+s, "", 413, "a session holds 100 keys at most")
	if all := c.claims("more"); len(all) > 0 {
		t.Errorf("the refused key has %+v", all)
	}
	c.says("PUT /v1/kv/0?acquire="+s, "again", 200, "true")
	c.says("PUT /v1/session/renew/"+s, "", 200, s)
	c.says("PUT /v1/kv/0?release="+s, "", 200, "true")
	c.says("PUT /v1/kv/more?acquire="+s, "", 200, "true")
	c.says("PUT /v1/session/destroy/"+s, "", 200, "true")
}

// A renewal of a session reads the queue of none of its keys: others may have made it long. Only where the listed claim is gone it
// looks for another one of the session.
func TestRenewalReadsNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &broken{Driver: memory.New()}
		c := replica(t, d)
		s := c.contend("p")
		c.put("p", 3, 0, s)
		c.says("PUT /v1/kv/a?acquire="+s, "", 200, "true")
		renews := func(want int64) {
			t.Helper()
			time.Sleep(15 * time.Second)
			before := d.lists.Load()
			c.says("PUT /v1/session/renew/"+s, "", 200, s)
			if n := d.lists.Load() - before; n != want {
				t.Errorf("a renewal of a session with 3 keys reads %d queues; want %d", n, want)
			}
		}
		renews(1) // its own
		if err := c.amend(t.Context(), c.record(s), func(s *session) { s.Keys["a"] = "x" }); err != nil {
			t.Fatal(err)
		}
		renews(2)
		renews(2)
		now, _ := c.semaphore("p")
		if who := c.holder("a"); who != s || !now.Holders[s] || now.Limit != 3 {
			t.Errorf("after renewals %q holds the key, and the semaphore is %+v; want %s in both", who, now, s)
		}
	})
}

// The rest of Consul's API is refused by name.
func TestRefused(t *testing.T) {
	c := replica(t, memory.New())
	s := c.open(short)
	for _, tt := range []struct {
		what, body string
		status     int
		text       string
	}{
		{"PUT /v1/kv/a", "x", 400, "acquire, release and cas"},
		{"PUT /v1/kv/a?acquire=" + s + "&release=" + s, "", 400, "one of the parameters"},
		{"PUT /v1/kv/a?acquire=" + s + "&flags=x", "", 400, "flags is a number"},
		{"PUT /v1/kv/a?acquire=" + s + "&dc=east", "", 400, `"dc"`},
		{"PUT /v1/kv/a?acquire=no", "", 500, "invalid session"},
		{"PUT /v1/kv/a?cas=0", "x", 400, "PREFIX/.lock"},
		{"PUT /v1/kv/a/.lock?cas=0", "x", 400, "Holders"},
		{"PUT /v1/kv/a/.lock?cas=x", "x", 400, "cas is a number"},
		{"PUT /v1/kv/?acquire=" + s, "", 400, "the name is empty"},
		{"GET /v1/kv/" + sessionPrefix + s, "", 400, "the service's own"},
		{"GET /v1/kv/a?raw", "", 400, `"raw"`},
		{"GET /v1/kv/a?keys", "", 400, `"keys"`},
		{"GET /v1/kv/a?index=x", "", 400, "index is a number"},
		{"GET /v1/kv/a?wait=x", "", 400, "wait is a duration"},
		{"DELETE /v1/kv/a?recurse", "", 400, `"recurse"`},
		{"POST /v1/kv/a", "", 405, "GET, PUT and DELETE"},
		{"GET /v1/session/create", "", 405, "takes PUT"},
		{"PUT /v1/session/create/x", "", 404, "draws the id"},
		{"PUT /v1/session/join", "", 404, "does not have"},
		{"PUT /v1/session/create", `{"TTL": "10s"} x`, 400, "follows"},
		{"PUT /v1/session/create", `{"TTL": "10s", "Color": 1}`, 400, "Color"},
		{"PUT /v1/session/create", `{}`, 400, "needs a TTL"},
		{"PUT /v1/session/create", ``, 400, "needs a TTL"},
		{"PUT /v1/session/create", `{"TTL": "0.1s"}`, 400, "from 1s"},
		{"PUT /v1/session/create", `{"TTL": "10s", "LockDelay": "2m"}`, 400, "LockDelay"},
		{"PUT /v1/session/create", `{"TTL": "10s", "LockDelay": []}`, 400, "LockDelay"},
		{"PUT /v1/session/create", `{"TTL": "10s", "Behavior": "x"}`, 400, "behavior"},
		{"PUT /v1/session/create", `{"TTL": "10s", "Node": "x"}`, 400, "only the node"},
		{"PUT /v1/session/create", `{"TTL": "10s", "NodeChecks": ["x"]}`, 400, "health checks"},
		{"PUT /v1/session/create", `{"TTL": "10s", "ServiceChecks": [{}]}`, 400, "health checks"},
		{"PUT /v1/agent/self", "", 405, "takes GET"},
	} {
		t.Run(tt.what+tt.body, func(t *testing.T) { c.says(tt.what, tt.body, tt.status, tt.text) })
	}
	c.says("GET /v1/agent/self?pretty", "", 200, `"NodeName":"stile"`)
}

// Only these paths are the API's.
func TestHas(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/kv/a": true, "/v1/kv/": true, "/v1/session/create": true, "/v1/agent/self": true,
		"/v1/kv": false, "/v1/locks/a": false, "/v1/agent/selfish": false, "/v1/txn": false,
	} {
		if Has(path) != want {
			t.Errorf("Has(%s) = %v", path, !want)
		}
	}
}

// A store that cannot change records, or whose errors come, is said to be so.
func TestStore(t *testing.T) {
	d := &broken{Driver: memory.New()}
	c := replica(t, d)
	s := c.open(short)
	d.err = errors.New("no store")
	for _, what := range []string{
		"GET /v1/kv/a", "GET /v1/kv/a?recurse", "PUT /v1/kv/a?acquire=" + s, "PUT /v1/session/renew/" + s, "PUT /v1/session/destroy/" + s,
		"GET /v1/session/list", "DELETE /v1/kv/a",
	} {
		c.says(what, "", 500, "no store") // Consul's clients ask again after 500
	}
	d.traits = func(t *driver.Traits) { t.Amends = false }
	if _, err := New(&Options{Driver: d, Lister: d, Keys: [][]byte{secret}}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a front over a store that cannot change records: %v", err)
	}
}

// A broken store fails where a test wants it to, and counts.
type broken struct {
	*memory.Driver
	err                   error // of List, and of Watch
	blind                 bool  // List shows only sessions
	gone                  bool  // Renew finds nothing
	lists, enters, amends atomic.Int64
	traits                func(*driver.Traits)
}

func (b *broken) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	b.lists.Add(1)
	if b.err != nil {
		return nil, b.err
	}
	if b.blind && !strings.HasPrefix(q.Name, sessionPrefix) {
		return nil, nil
	}
	return b.Driver.List(ctx, q)
}

func (b *broken) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	b.enters.Add(1)
	return b.Driver.Enter(ctx, c)
}

func (b *broken) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		b.amends.Add(1)
	}
	if b.gone {
		return []driver.Renewal{{Err: driver.ErrGone}}
	}
	return b.Driver.Renew(ctx, cs)
}

func (b *broken) Traits() driver.Traits {
	t := b.Driver.Traits()
	if b.traits != nil {
		b.traits(&t)
	}
	return t
}
