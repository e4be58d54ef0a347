package redis

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The key is the name, byte for byte, so every library uses the same key for the same name.
func TestSetNXNames(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	nodes := servertest.RedisCluster(t)
	one, many := openSetNX(t, "redis://"+s.Addr), openSetNX(t, "redis+cluster://"+nodes[0].Addr)
	for _, name := range []string{
		"plain", "order {42}", "{}", "}{", "{a}{b}", " spaces  at both ends ", "Größe/注文/🔒",
		"*", "a:b:c", `"quoted" \ %41`, "-1", "stile1",
	} {
		for where, d := range map[string]*SetNX{"a server": one, "a cluster": many} {
			c := claim(name, "ours")
			if !enter(t, d, c).Holds {
				t.Errorf("%q on %s: want a claim that holds", name, where)
			}
			if got := set(t, d, name, "theirs"); got {
				t.Errorf("%q on %s: another library's SET NX is granted while stile holds", name, where)
			}
			leave(t, d, c)
			if got := set(t, d, name, "theirs"); !got {
				t.Errorf("%q on %s: another library's SET NX is not granted after stile's release", name, where)
			}
			if p := enter(t, d, claim(name, "next")); p.Holds {
				t.Errorf("%q on %s: stile holds while another library does", name, where)
			}
		}
	}
}

// set takes a lock as other libraries do, over the driver's connection, which finds the server of a cluster.
func set(t *testing.T, d *SetNX, name, token string) bool {
	t.Helper()
	got, err := d.conn.SetNX(timely(t), name, token, time.Minute.Milliseconds())
	return err == nil && got
}

// Any value that another client wrote is that client's lock: it keeps stile out, and stile does not change it.
func TestSetNXForeignTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	for what, token := range map[string]string{
		"nothing":                    "",
		"redsync":                    "q1Zl0m8Yx3+vA/7e2cR5tw==",
		"redislock with metadata":    "q1Zl0m8Yx3-vA_7e2cR5twsome metadata",
		"rueidis, bytes":             "\x00\xff\xfe\n\r\x80stile\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c",
		"redis-py":                   "6c0d1b0a5a8811efb1d30242ac120002",
		"ShedLock":                   "ADDED:2026-01-01T00:00:00.000Z@host:6c0d1b0a-5a88-11ef-b1d3-0242ac120002",
		"a time stamp":               "1767225600000",
		"begins as stile's":          "stile1",
		"a line of stile's":          "stile1\nours\n",
		"stile's without a ticket":   "stile1\nours\nx\nclient\n\n0\n",
		"stile's of another version": "stile2\nours\n5\nclient\n\n0\n",
		"a megabyte":                 string(make([]byte, 1<<20)),
	} {
		s.Redis([]string{"DEL", "token"}, foreignLock("token", token))
		before := s.Redis([]string{"DUMP", "token"})
		c := claim("token", "ours")
		try := *c
		try.ID, try.Try = "try", true
		if p := enter(t, d, &try); p.Holds || p.Ticket != 0 || p.Blocker.Record != "" {
			t.Errorf("%s: try = %+v; want it refused, by one of whom nothing is known", what, p)
		}
		if p := enter(t, d, c); p.Holds {
			t.Errorf("%s: enter = %+v; want it to wait", what, p)
		}
		if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: renewal = %v; want ErrGone", what, err)
		}
		if err := d.Leave(timely(t), &driver.Release{Claim: c}); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: leave = %v; want ErrGone", what, err)
		}
		list, err := d.List(timely(t), &driver.Query{Name: "token"})
		if err != nil || len(list) != 1 || len(list[0].Claims) != 1 {
			t.Errorf("%s: list = %+v, %v; want the other's claim", what, list, err)
		}
		if got := s.Redis([]string{"DUMP", "token"}); got != before {
			t.Errorf("%s: the other's key has changed", what)
		}
		if left := s.Redis([]string{"PTTL", "token"}).(int64); left < 50_000 {
			t.Errorf("%s: the other's key has %d ms left; want its minute", what, left)
		}
	}
}

// A key of another type is foreign data: every verb reports it, and does not change it.
func TestSetNXForeignTypes(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	for kind, make := range map[string][]string{
		"hash": {"HSET", "typed", "a", "1"}, "list": {"RPUSH", "typed", "a"}, "set": {"SADD", "typed", "a"},
		"zset": {"ZADD", "typed", "1", "a"}, "stream": {"XADD", "typed", "*", "a", "1"},
	} {
		s.Redis([]string{"DEL", "typed"}, make)
		before := s.Redis([]string{"DUMP", "typed"})
		c := claim("typed", "ours")
		_, entered := d.Enter(timely(t), c)
		_, listed := d.List(timely(t), &driver.Query{Name: "typed"})
		_, broken := d.Break(timely(t), &driver.BreakRequest{Name: "typed"})
		if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; !errors.Is(err, driver.ErrGone) {
			t.Errorf("renewal over a %s = %v; want ErrGone", kind, err)
		}
		for verb, err := range map[string]error{
			"enter": entered, "list": listed, "break": broken,
			"renew": d.Renew(timely(t), []*driver.Claim{c})[0].Err,
			"leave": d.Leave(timely(t), &driver.Release{Claim: c}),
		} {
			if !errors.Is(err, driver.ErrForeign) || !driver.NotApplied(err) {
				t.Errorf("%s of a %s = %v; want ErrForeign", verb, kind, err)
				continue
			}
			says(t, err, `"typed"`, "is a "+kind)
		}
		if got := s.Redis([]string{"DUMP", "typed"}); got != before {
			t.Errorf("the %s has changed", kind)
		}
	}
}

// If somebody makes the key permanent, its holder sets the expiry again, and can release it.
func TestSetNXPersisted(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	c := claim("persisted", "ours")
	c.Delay = time.Second
	enter(t, d, c)
	s.Redis([]string{"PERSIST", "persisted"})
	if r := d.Renew(timely(t), []*driver.Claim{c})[0]; r.Err != nil || r.TTL < 9*time.Second {
		t.Errorf("renewal = %+v; want the lease anew", r)
	}
	if left := s.Redis([]string{"PTTL", "persisted"}).(int64); left < 9_000 {
		t.Errorf("the key has %d ms left; want the lease and the delay", left)
	}
	s.Redis([]string{"PERSIST", "persisted"})
	leave(t, d, c)
	if got := s.Redis([]string{"EXISTS", "persisted"}); got != int64(0) {
		t.Error("the key is still there after the release")
	}
}

// A missing right is not reported as foreign data.
func TestSetNXWithoutRights(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	s.Redis(foreignLock("forbidden", "theirs"), []string{"ACL", "SETUSER", "default", "-get"})
	_, err := d.Enter(timely(t), claim("forbidden", "ours"))
	if errors.Is(err, driver.ErrForeign) || !driver.NotApplied(err) {
		t.Errorf("enter = %v; want a refusal that is not ErrForeign", err)
	}
	says(t, err, "does not let the default user do this")
}

// A user with the rights that docs/stores/setnx.md lists can do everything.
func TestSetNXDocumentedRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("../..", "docs", "stores", "setnx.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "ACL SETUSER locks on >… ")
	rights, _, ok := strings.Cut(rest, "\n\n")
	if !ok {
		t.Fatal("the page lists no rights")
	}
	s := servertest.Redis(t)
	s.Redis(append([]string{"ACL", "SETUSER", "locks", "on", ">secret"}, strings.Fields(rights)...))
	d := openSetNX(t, "redis://locks:secret@"+s.Addr)
	for _, note := range d.Traits().Remarks() {
		if strings.Contains(note, "does not let") {
			t.Errorf("the driver could not ask everything: %q", note)
		}
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	s.Redis([]string{"SCRIPT", "FLUSH"})
	if r := d.Renew(timely(t), []*driver.Claim{a})[0]; r.Err != nil {
		t.Error(r.Err)
	}
	enter(t, d, b)
	told := awaiting(t, d, b)
	tells(t, s)
	leave(t, d, a)
	if p := <-told; !p.Holds {
		t.Fatalf("the waiter = %+v; want it to hold", p)
	}
	if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: b, Keep: time.Minute}); err != nil {
		t.Error(err)
	}
	if _, err := d.Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil {
		t.Error(err)
	}
	s.Redis([]string{"RPUSH", "name", "x"})
	if _, err := d.Enter(timely(t), claim("name", "c")); !errors.Is(err, driver.ErrForeign) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
}
