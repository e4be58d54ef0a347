package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// Every verb reports a foreign value by a clear error, and does not change it.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	key := d.key("name")
	tests := []struct {
		set  []string
		want string
	}{
		{[]string{"RPUSH", key, "a", "b"}, "is a list"},
		{[]string{"HSET", key, "a", "b"}, "is a hash"},
		{[]string{"SET", key, "owner-of-another-library"}, "is a string"},
		{[]string{"SET", key, ""}, "is a string"},
		{[]string{"SET", key, "18-bytes-like-HEAD"}, "is a string"},
		{[]string{"SET", key, "stile1"}, "is a string"},
		{[]string{"SET", key, "stile2"}, "is a string"},
		{[]string{"SET", key, "stile2" + strings.Repeat("\x00", 56)}, "is a string"},
		{[]string{"SET", key, "stile2" + strings.Repeat("\x01", 100)}, "is a string"},
		{[]string{"SET", key, "stile2" + strings.Repeat("\x00", 22) + strings.Repeat("\x01", 100)}, "is a string"},
		{[]string{"SET", key, "stile1\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00rubbish"}, "is a string"},
	}
	for _, test := range tests {
		s.Redis([]string{"FLUSHALL"}, test.set)
		before := s.Redis([]string{"DUMP", key})
		c := claim("name", "id")
		_, err := d.Enter(timely(t), c)
		entered := claim("name", "id")
		entered.Ticket = 7
		_, again := d.Enter(timely(t), entered)
		_, broken := d.Break(timely(t), &driver.BreakRequest{Name: "name"})
		_, listed := d.List(timely(t), &driver.Query{Name: "name"})
		for verb, err := range map[string]error{
			"enter": err, "enter again": again, "break": broken, "list": listed,
			"renew": d.Renew(timely(t), []*driver.Claim{c})[0].Err,
			"leave": d.Leave(timely(t), &driver.Release{Claim: c}),
		} {
			if !errors.Is(err, driver.ErrForeign) || !driver.NotApplied(err) {
				t.Errorf("%q: %s = %v, want ErrForeign", test.set, verb, err)
				continue
			}
			says(t, err, test.want, key)
		}
		if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 0 {
			t.Errorf("%q: list of all = %v, %v; want none", test.set, list, err)
		}
		if after := s.Redis([]string{"DUMP", key}); after != before {
			t.Errorf("%q: the value has changed", test.set)
		}
	}
}

// Each of these faults is caused on a real server, after the driver has connected.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const noRight = "does not let the default user do this"
	tests := []struct {
		name                  string
		cause                 [][]string
		want                  string
		rejected, unreachable bool
	}{
		{"READONLY", [][]string{{"REPLICAOF", "127.0.0.1", "1"}}, "redis is a replica here", true, true},
		{"MASTERDOWN", [][]string{
			{"CONFIG", "SET", "replica-serve-stale-data", "no"},
			{"REPLICAOF", "127.0.0.1", "1"},
		}, "lost its primary", true, true},
		{"NOREPLICAS", [][]string{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, "too few replicas", true, true},
		{"OOM", [][]string{{"CONFIG", "SET", "maxmemory", "1"}},
			"no memory left for a new claim: raise maxmemory", true, false},
		{"NOPERM", [][]string{{"ACL", "SETUSER", "default", "-evalsha"}}, noRight, true, false},
		{"NOPERM in a script", [][]string{{"ACL", "SETUSER", "default", "-set"}}, noRight, true, false},
		{"NOPERM for the key", [][]string{{"ACL", "SETUSER", "default", "resetkeys", "~other*"}}, noRight, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			d := open(t, "redis://"+s.Addr)
			s.Redis(test.cause...)
			_, err := d.Enter(timely(t), claim("name", "id"))
			says(t, err, test.want)
			marks(t, err, test.rejected, test.unreachable)
		})
	}
}

// If a server cannot save its data, and its settings then forbid writes, a person has to mend it.
func TestMisconf(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--save", "3600 1", "--stop-writes-on-bgsave-error", "yes")
	if err := os.MkdirAll(filepath.Join(s.Dir, servertest.RedisData, "dump.rdb", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := open(t, "redis://"+s.Addr)
	s.Redis([]string{"SET", "x", "1"})
	var err error
	servertest.Until(t, "the server has failed to save", func() bool {
		c, e := servertest.DialRedis(s.Addr, nil)
		if e != nil {
			t.Fatal(e)
		}
		defer c.Close()
		_, _ = c.Do("BGSAVE")
		_, err = d.Enter(timely(t), claim("name", "id"))
		return err != nil
	})
	says(t, err, "cannot save its data")
	marks(t, err, true, false)
	// The child process that saves writes into the folder, which is about to be removed.
	servertest.Until(t, "nobody saves", func() bool { return s.RedisInfo("rdb_bgsave_in_progress") == "0" })
}

func TestBusy(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--busy-reply-threshold", "1")
	d := open(t, "redis://"+s.Addr)
	c, err := servertest.DialRedis(s.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enter(t, d, claim("name", "id"))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Do("EVAL", "while true do end", "0")
		ended <- err
	}()
	servertest.Until(t, "the server is busy", func() bool {
		_, err = d.Enter(timely(t), claim("name", "id"))
		return err != nil
	})
	says(t, err, "redis is busy with another's script")
	marks(t, err, true, true)
	s.Redis([]string{"SCRIPT", "KILL"})
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the other's script ended with %v", err)
	}
	leave(t, d, claim("name", "id"))
}

func TestLoading(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--enable-debug-command", "yes",
		"--loading-process-events-interval-bytes", "1024", "--key-load-delay", "300")
	s.Redis([]string{"DEBUG", "POPULATE", "8000", "some", "64"}, []string{"SAVE"})
	d := open(t, "redis://"+s.Addr)
	ready := make(chan struct{})
	go func() {
		s.Restart()
		close(ready)
	}()
	var err error
	servertest.Until(t, "the server says that it is loading", func() bool {
		_, err = d.Enter(timely(t), claim("name", "id"))
		return err != nil && strings.Contains(err.Error(), "LOADING")
	})
	says(t, err, "still reading its data")
	marks(t, err, true, true)
	<-ready
	enter(t, d, claim("name", "id"))
}

// A client of a single server reports that the server is a node of a cluster.
func TestClusterTakenForSingle(t *testing.T) {
	t.Parallel()
	lone := servertest.Redis(t, "--cluster-enabled", "yes")
	d := open(t, "redis://"+lone.Addr)
	_, err := d.Enter(timely(t), claim("name", "id"))
	says(t, err, "does not serve this name at the moment")
	marks(t, err, true, true)

	d = open(t, "redis://"+servertest.RedisCluster(t)[0].Addr)
	for i := range 100 {
		if _, err = d.Enter(timely(t), claim(strings.Repeat("x", i+1), "id")); err != nil {
			break
		}
	}
	says(t, err, "use redis+cluster://")
	marks(t, err, true, false)
}

// With memory full, claims in a queue can stay and leave; only entering is refused.
func TestFullMemory(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	s.Redis([]string{"CONFIG", "SET", "maxmemory", "1"})
	if _, err := d.Enter(timely(t), claim("name", "c")); err == nil {
		t.Error("a third claim enters")
	}
	enter(t, d, b)
	for i, r := range d.Renew(timely(t), []*driver.Claim{a, b}) {
		if r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
	leave(t, d, a)
	if p := enter(t, d, b); !p.Holds {
		t.Error("the waiter does not hold after the holder has left")
	}
	leave(t, d, b)
}

// The answer to another request has an unknown outcome.
func TestMixedUpAnswers(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	scripts := *d.scripts
	for _, text := range []string{
		"return {KEYS[1], 'another', 'ok', 1, 1, 1, 0}", "return {'another', ARGV[1], 'ok', 1, 1, 1, 0}",
		"return {}", "return {KEYS[1], ARGV[1]}", "return {KEYS[1], ARGV[1], 'rubbish'}", "return 1", "return 'text'",
	} {
		other := scripts
		other.enter = conn.NewScript(text, nil)
		d.scripts = &other
		_, err := d.Enter(timely(t), claim("name", "id"))
		if err == nil || driver.NotApplied(err) {
			t.Errorf("answer of %q: %v; want an unknown outcome", text, err)
		}
	}
}

// An answer without a request grants nothing. The calls with mixed answers fail, their connection is given up, and the next
// calls get their own answers.
func TestStrayAnswer(t *testing.T) {
	t.Parallel()
	for layout, strays := range map[string][]string{
		layoutQueue: {"+OK\r\n"},
		layoutSetNX: {":1\r\n", "+none\r\n", "*1\r\n+OK\r\n"},
	} {
		for _, stray := range strays {
			t.Run(fmt.Sprintf("%s %q", layout, stray), func(t *testing.T) {
				t.Parallel()
				s := servertest.Redis(t)
				proxy := servertest.NewProxy(t, s.Addr)
				direct, through := openAny(t, s.Addr, layout), openAny(t, proxy.Addr, layout)
				enter(t, direct, claim("held", "direct"))
				enter(t, through, claim("warm", "warm"))
				proxy.Stray(stray)
				const calls = 4
				failed := 0
				for i := range calls {
					p, err := through.Enter(timely(t), claim("held", fmt.Sprint("late", i)))
					if p.Holds {
						t.Fatalf("call %d holds what another client holds", i)
					}
					if err != nil {
						failed++
						if driver.OutcomeOf(err) == driver.OutcomeRefused {
							t.Errorf("call %d = %v; want an unknown outcome", i, err)
						}
					}
				}
				if failed == calls {
					t.Errorf("all %d calls fail; want the first ones at most", calls)
				}
				if p := enter(t, through, claim("free", "free")); !p.Holds {
					t.Error("a free lock is not had after that")
				}
			})
		}
	}
}

// A stray answer does not count as the answer to a renewal by a command, whose answers have no identity.
func TestStrayAnswerRenewsNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Tair(t)
	proxy := servertest.NewProxy(t, s.Addr)
	d, err := driver.Open(timely(t), "tair://"+proxy.Addr+"?layout=setnx")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := claim("name", "c")
	enter(t, d, c)
	s.Redis([]string{"SET", "name", "another's"})
	proxy.Stray(":1\r\n")
	if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; err == nil || errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal = %v; want an unknown outcome", err)
	}
	if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; !errors.Is(err, driver.ErrGone) {
		t.Errorf("next renewal = %v; want ErrGone", err)
	}
}

// openAny opens the driver of a layout.
func openAny(t *testing.T, addr, layout string) driver.Driver {
	t.Helper()
	d, err := driver.Open(timely(t), "redis://"+addr+"?layout="+layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// A value of another type at Redlock's ticket key is foreign too, and the error names the key.
func TestWrongTypeNamesTheKey(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	v := newQuorumMember(t.Context(), open(t, "redis://"+s.Addr).conn, "")
	s.Redis([]string{"HSET", ticketKey("name"), "a", "1"})
	_, err := v.Vote(timely(t), claim("name", "id"), 1)
	if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), ticketKey("name")) {
		t.Errorf("vote = %v; want ErrForeign, and the key", err)
	}
}
