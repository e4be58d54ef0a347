package consul

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// semaphore returns the value and the index of the semaphore at a prefix, as Consul's client in Go reads them: without the
// holders that have no key of their own below the prefix.
func (c *client) semaphore(prefix string) (s semaphore, index uint64) {
	c.t.Helper()
	all, _ := c.pairs(prefix + "?recurse")
	alive := map[string]bool{}
	for _, p := range all {
		if p.Key == prefix+suffix {
			if p.Flags != semaphoreFlag || p.Session != "" || json.Unmarshal(p.Value, &s) != nil {
				c.t.Errorf("the semaphore is %+v", p)
			}
			index = p.ModifyIndex
		}
		alive[p.Session] = true
	}
	maps.DeleteFunc(s.Holders, func(id string, _ bool) bool { return !alive[id] })
	return s, index
}

// swap puts a semaphore with some holders.
func (c *client) put(prefix string, limit int64, index uint64, holders ...string) *Answer {
	c.t.Helper()
	s := semaphore{limit, map[string]bool{}}
	for _, id := range holders {
		s.Holders[id] = true
	}
	body, err := json.Marshal(s)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.do(fmt.Sprintf("PUT /v1/kv/%s/.lock?cas=%d&flags=%d", prefix, index, semaphoreFlag), string(body))
}

// contend makes a session with its key below the prefix.
func (c *client) contend(prefix string) string {
	c.t.Helper()
	id := c.open(`{"TTL": "10s", "Behavior": "delete"}`)
	c.says(fmt.Sprintf("PUT /v1/kv/%s/%s?acquire=%s&flags=%d", prefix, id, id, semaphoreFlag), "", 200, "true")
	return id
}

func ids(s semaphore) []string { return slices.Sorted(maps.Keys(s.Holders)) }

// Clients that swap the value of a semaphore share the permits of the name with claims of stile, and hold no more than there
// are.
func TestSemaphore(t *testing.T) {
	d := memory.New()
	c, other := replica(t, d), replica(t, d)
	one, two, three := c.contend("a"), c.contend("a"), c.contend("a")
	if s, index := c.semaphore("a"); index != 0 || s.Holders != nil {
		t.Errorf("a semaphore without holders = %+v at %d", s, index)
	}
	wants := func(a *Answer, want string) {
		t.Helper()
		if string(a.Text) != want {
			t.Errorf("a swap = %d %s; want %s", a.Status, a.Text, want)
		}
	}
	wants(c.put("a", 2, 0, one), "true")
	_, index := c.semaphore("a")
	wants(other.put("a", 2, 0, two), "false") // made with a view that is over
	wants(other.put("a", 2, index, one, two), "true")
	wants(c.put("a", 2, index, one, three), "false")
	c.says("PUT /v1/kv/a/.lock?acquire="+one, "", 200, "false") // a lock by a session with a slot
	wants(c.put("a", 2, 0), "false")
	s, full := c.semaphore("a")
	if want := slices.Sorted(slices.Values([]string{one, two})); s.Limit != 2 || !slices.Equal(ids(s), want) {
		t.Errorf("the semaphore = %+v; want %v of 2", s, want)
	}
	wants(c.put("a", 2, full, one, two, three), "false") // the store has no room
	wants(c.put("a", 2, full, one, two), "true")         // nothing changes, as after a lost answer
	if a := c.put("a", 2, full); a.Status != 400 {
		t.Errorf("two holders less = %d %s", a.Status, a.Text)
	}
	if a := c.put("a", 3, full, one, two, three); a.Status != 409 {
		t.Errorf("another limit = %d %s", a.Status, a.Text)
	}
	permit := &driver.Claim{Name: "a", ID: "own", Client: "x", Weight: 1, Capacity: 2, TTL: time.Hour, Wait: time.Hour}
	if p, err := d.Enter(t.Context(), permit); err != nil || p.Holds {
		t.Errorf("a third permit = %+v, %v", p, err)
	}
	s, index = c.semaphore("a")
	if index != full || len(s.Holders) != 2 || !s.Holders[one] || !s.Holders[two] {
		t.Errorf("the semaphore with a waiter = %+v", s)
	}
	wants(c.put("a", 2, index, two), "true")
	s, index = c.semaphore("a")
	if len(s.Holders) != 2 || s.Holders[one] || !s.Holders[two] {
		t.Errorf("the semaphore with a claim of stile = %+v", s)
	}
	for id := range s.Holders {
		if id != two {
			if a := c.put("a", 2, index, two); a.Status != 403 {
				t.Errorf("the removal of a claim of stile = %d %s", a.Status, a.Text)
			}
		}
	}
	c.says("DELETE /v1/kv/a/.lock?cas="+fmt.Sprint(index), "", 409, "in use")
	c.says("DELETE /v1/kv/a/"+one, "", 200, "true")
	c.says("PUT /v1/kv/a/.lock?acquire="+three, "", 200, "false") // a lock at the same name
	if got, _ := c.pairs("a/.lock"); len(got) != 1 || got[0].Flags != semaphoreFlag {
		t.Errorf("clients of the lock find %+v; want a semaphore, which they refuse", got)
	}
	if all, _ := c.pairs("a/?recurse"); len(all) != 4 {
		t.Errorf("%d keys below the name: %+v; want the semaphore, two holders and a contender", len(all), all)
	}
	c.says("PUT /v1/kv/b/.lock?cas=0", `{"Limit": 1, "Holders": {"`+"6a1b1a3c-0000-4000-8000-000000000000"+`": true}}`, 500, "invalid session")
}

// The slot of a session that ends is free at once, without a lock-delay.
func TestSlotEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica(t, memory.New())
		one, two := c.contend("a"), c.contend("a")
		c.put("a", 1, 0, one)
		_, index := c.semaphore("a")
		list := c.do("GET /v1/kv/a?recurse", "")
		answers := make(chan *Answer, 1)
		go func() { answers <- c.do(fmt.Sprintf("GET /v1/kv/a?recurse&index=%d", list.Index), "") }()
		time.Sleep(15 * time.Second)
		c.says("PUT /v1/session/renew/"+two, "", 200, two)
		if s, _ := c.semaphore("a"); !s.Holders[one] {
			t.Errorf("the semaphore = %+v before the session ends", s)
		}
		began := time.Now()
		<-answers
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the query takes %v; want the rest of the lease", took)
		}
		if s, now := c.semaphore("a"); s.Holders[one] || now == index {
			t.Errorf("the semaphore = %+v after the session ended", s)
		}
		if a := c.put("a", 1, 0, two); string(a.Text) != "true" {
			t.Errorf("the next holder = %d %s", a.Status, a.Text)
		}
	})
}

// Claims that take more than one permit, that wait, or that are kept after they left take up slots: a client that found a
// slot free would ask for it again and again.
func TestTakenSlots(t *testing.T) {
	d := memory.New()
	c := replica(t, d)
	one := c.contend("a")
	enter := func(id string, weight int64) *driver.Claim {
		t.Helper()
		x := &driver.Claim{Name: "a", ID: id, Client: "x", Weight: weight, Capacity: 4, TTL: time.Hour, Wait: time.Hour}
		if _, err := d.Enter(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	enter("two", 2)
	kept := enter("one", 1)
	if err := d.Leave(t.Context(), &driver.Release{Claim: kept, Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if s, _ := c.semaphore("a"); len(s.Holders) != 3 {
		t.Errorf("the semaphore = %+v; want three holders", s)
	}
	enter("three", 3)
	s, index := c.semaphore("a")
	if len(s.Holders) != 4 {
		t.Errorf("the semaphore with a waiter = %+v; want no free slot", s)
	}
	if a := c.put("a", 4, index, append(ids(s), one)...); string(a.Text) != "false" {
		t.Errorf("a slot before a waiter = %d %s", a.Status, a.Text)
	}
}
