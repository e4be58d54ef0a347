package consul

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/store/memory"
)

// A claim whose record only looks like a session's hold is a stranger's. The lock service notes who wrote the record; without
// principals the store does not know the derived claim.
func TestForgedHold(t *testing.T) {
	for _, by := range []string{"", "bob"} {
		t.Run("by "+by, func(t *testing.T) {
			d := memory.New()
			ann := replica(t, d)
			if by != "" {
				ann = ann.as(user{"ann", every, every, new(atomic.Bool)})
			}
			s := ann.open(short)
			text := fmt.Sprintf(`{"program":"x","consul_key":{"session":%q,"by":%q,"nonce":"x","principal":%q,"flags":7,"value":"dGV4dA=="}}`,
				s, newKey(secret).name, ann.Principal())
			forged := &driver.Claim{
				Name: "a", ID: "own", Client: "x", Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour,
				Record: record.With(text, by),
			}
			if p, err := d.Enter(t.Context(), forged); err != nil || !p.Holds {
				t.Fatalf("the forged claim = %+v, %v", p, err)
			}
			ann.says("PUT /v1/kv/a?acquire="+s+"&flags=7", "text", http.StatusOK, "false")
			ann.says("PUT /v1/kv/a?acquire="+s+"&flags=8", "text", http.StatusOK, "false")
			if who := ann.holder("a"); by != "" && (who == s || who == "") {
				t.Errorf("%q holds the key; want a stranger", who)
			}
		})
	}
}

// A hooked store calls a function before or after each claim on the name of a lock.
type hooked struct {
	*memory.Driver
	before, after func()
}

func (d *hooked) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if strings.HasPrefix(c.Name, sessionPrefix) {
		return d.Driver.Enter(ctx, c)
	}
	if d.before != nil {
		d.before()
	}
	p, err := d.Driver.Enter(ctx, c)
	if d.after != nil {
		d.after()
	}
	return p, err
}

// claims returns the claims on a name.
func (c *client) claims(name string) []driver.ClaimInfo {
	c.t.Helper()
	l, err := c.queue(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return l.Claims
}

// A proxy may repeat a swap at another replica. Its session has one slot, which its renewals keep.
func TestRepeatedSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hooked{Driver: memory.New()}
		one, two := replica(t, d), replica(t, d)
		s := one.contend("a")
		var both sync.WaitGroup
		both.Add(2)
		d.before = func() {
			both.Done()
			both.Wait() // neither sees the other's claim before its own enters
		}
		answers := make(chan *Answer, 2)
		for _, c := range []*client{one, two} {
			go func() { answers <- c.put("a", 3, 0, s) }()
		}
		for range 2 {
			if a := <-answers; string(a.Text) != "true" {
				t.Errorf("a swap = %d %s; want true", a.Status, a.Text)
			}
		}
		if all := one.claims("a"); len(all) != 1 {
			t.Errorf("the session has %d slots; want one", len(all))
		}
		for range 3 {
			time.Sleep(15 * time.Second)
			one.says("PUT /v1/session/renew/"+s, "", http.StatusOK, s)
		}
		now, index := one.semaphore("a")
		if !now.Holders[s] {
			t.Errorf("the semaphore = %+v; want the session", now)
		}
		if a := two.put("a", 3, index); string(a.Text) != "true" {
			t.Errorf("a release = %d %s", a.Status, a.Text)
		}
		if all := one.claims("a"); len(all) != 0 {
			t.Errorf("after the release there are %d claims", len(all))
		}
	})
}

// If a session has two slots, because a replica ended between a claim and its look, a renewal keeps the one that the session lists. A
// release and the end of the session count for both.
func TestTwoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica(t, memory.New())
		var s string
		twice := func(name string) {
			t.Helper()
			one := c.record(s)
			c.put(name, 3, 0, s)
			h := &hold{Session: s, By: one.By, Nonce: newNonce(3), Dot: true, Flags: semaphoreFlag}
			d, err := c.held(one, h, name, 3)
			if err != nil {
				t.Fatal(err)
			}
			if d.Record, err = h.encode(one.holder, d.TTL); err != nil {
				t.Fatal(err)
			}
			if p, err := c.d.Enter(t.Context(), d); err != nil || !p.Holds {
				t.Fatalf("a second slot = %+v, %v", p, err)
			}
		}
		wants := func(name string, n int) {
			t.Helper()
			if all := c.claims(name); len(all) != n {
				t.Errorf("%s has %d claims; want %d", name, len(all), n)
			}
		}
		s = c.contend("a")
		twice("c")
		time.Sleep(15 * time.Second)
		c.says("PUT /v1/session/renew/"+s, "", http.StatusOK, s)
		time.Sleep(15 * time.Second)
		wants("c", 1)
		twice("a")
		twice("b")
		wants("a", 2)
		wants("b", 2)
		_, index := c.semaphore("a")
		c.put("a", 3, index)
		wants("a", 0)
		c.says("PUT /v1/session/destroy/"+s, "", http.StatusOK, "true")
		wants("b", 0)
	})
}

// If a session ends while a request takes a key for it, the key is not taken. The lock stays closed for the lock-delay, as
// after each end.
func TestEndBesideAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hooked{Driver: memory.New()}
		c := replica(t, d)
		s, next := c.open(short), c.open(`{"TTL": "1h"}`)
		d.before = func() {
			d.before = nil
			c.says("PUT /v1/session/destroy/"+s, "", http.StatusOK, "true")
		}
		c.says("PUT /v1/kv/a?acquire="+s, "", http.StatusInternalServerError, "invalid session")
		if who := c.holder("a"); who != "" {
			t.Errorf("%s holds after its end", who)
		}
		c.says("PUT /v1/kv/a?acquire="+next, "", http.StatusOK, "false")
		time.Sleep(defaultDelay)
		c.says("PUT /v1/kv/a?acquire="+next, "", http.StatusOK, "true")
	})
}

// A stepped store calls a function before one of the calls of its client.
type stepped struct {
	*memory.Driver
	calls int // until then; the function makes calls of its own, after it
	then  func()
}

func (d *stepped) step() {
	if d.calls--; d.calls == 0 {
		d.then()
	}
}

func (d *stepped) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d.step()
	return d.Driver.Enter(ctx, c)
}

func (d *stepped) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	d.step()
	return d.Driver.Renew(ctx, cs)
}

func (d *stepped) Leave(ctx context.Context, r *driver.Release) error {
	d.step()
	return d.Driver.Leave(ctx, r)
}

func (d *stepped) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	d.step()
	return d.Driver.List(ctx, q)
}

// A session is destroyed at any moment of a request that takes a key for it, and takes a key at any moment of a request that
// destroys it: its key is free then, and does not wait for the end of a lease.
func TestDestroyBesideAcquire(t *testing.T) {
	for _, what := range []string{"a destroy in an acquire", "an acquire in a destroy"} {
		t.Run(what, func(t *testing.T) {
			steps := 0
			for over := false; !over; steps++ {
				synctest.Test(t, func(t *testing.T) {
					d := &stepped{Driver: memory.New(), calls: -1}
					c := replica(t, d)
					s := c.open(undelay)
					c.says("PUT /v1/kv/b?acquire="+s, "", http.StatusOK, "true")
					acquire := func() { c.do("PUT /v1/kv/a?acquire="+s, "") }
					destroy := func() { c.says("PUT /v1/session/destroy/"+s, "", http.StatusOK, "true") }
					first := acquire
					if d.then = destroy; what == "an acquire in a destroy" {
						first, d.then = destroy, acquire
					}
					d.calls = steps + 1
					first()
					over = d.calls > 0
					d.calls = -1
					if over {
						d.then()
					}
					for _, key := range []string{"a", "b"} {
						if all := c.claims(key); len(all) != 0 {
							t.Errorf("at step %d the key %s is left to %+v", steps, key, all)
						}
					}
				})
			}
			if steps < 4 {
				t.Errorf("there were %d steps", steps)
			}
		})
	}
}

// A session whose record is full ends too.
func TestDestroyOfFullSession(t *testing.T) {
	c := replica(t, memory.New())
	s := c.open(`{"TTL": "10s", "Name": "x", "Behavior": "delete", "LockDelay": "0s"}`)
	for i := 0; ; i++ {
		name := fmt.Sprintf("%d%s", i, strings.Repeat("n", 20))
		if a := c.do("PUT /v1/kv/"+name+"?acquire="+s, ""); a.Status == http.StatusRequestEntityTooLarge {
			break
		} else if a.Status != http.StatusOK || i > 1000 {
			t.Fatalf("key %d = %d %s", i, a.Status, a.Text)
		}
	}
	full := c.record(s)
	room := driver.MaxRecord - len(full.record) - len(fmt.Sprint(full.Times+1)) + len(fmt.Sprint(full.Times))
	if err := c.amend(t.Context(), full, func(s *session) { s.holder.Owner += strings.Repeat("o", room) }); err != nil { // as a longer name does
		t.Fatal(err)
	}
	if n := len(c.record(s).record); n != driver.MaxRecord {
		t.Fatalf("the record has %d bytes", n)
	}
	c.says("PUT /v1/session/destroy/"+s, "", http.StatusOK, "true")
	if all := c.claims("0" + strings.Repeat("n", 20)); len(all) != 0 {
		t.Errorf("a key of the ended session is left to %+v", all)
	}
}

// A session lists its key, whatever a repeated request that is refused leaves undone.
func TestRepeatedAcquire(t *testing.T) {
	for name, when := range map[string]func(first, second func(), d *hooked){
		"after the claim": func(first, second func(), d *hooked) {
			d.after = func() { d.after = nil; second() }
			first()
		},
		"after the answer": func(first, second func(), _ *hooked) {
			first()
			second()
		},
		"before the claim, beside a stranger": func(first, second func(), d *hooked) {
			d.before = func() {
				d.before = nil
				x := &driver.Claim{Name: "a", ID: "x", Client: "x", Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour}
				if _, err := d.Enter(context.Background(), x); err != nil {
					panic(err)
				}
				second()
				if err := d.Leave(context.Background(), &driver.Release{Claim: x}); err != nil {
					panic(err)
				}
			}
			first()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &hooked{Driver: memory.New()}
				c := replica(t, d)
				s := c.open(undelay)
				when(func() {
					c.says("PUT /v1/kv/a?acquire="+s, "", http.StatusOK, "true")
				}, func() { // it ends here, so nothing looks for the claim of the first
					if did, err := c.take(t.Context(), c.record(s), "a", &hold{}, driver.All); did || err != nil {
						t.Errorf("a second claim = %v, %v; want a refusal", did, err)
					}
				}, d)
				for range 3 {
					time.Sleep(15 * time.Second)
					c.says("PUT /v1/session/renew/"+s, "", http.StatusOK, s)
				}
				if who := c.holder("a"); who != s {
					t.Errorf("%q holds the key after renewals; want %s", who, s)
				}
			})
		})
	}
}
