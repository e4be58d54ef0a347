package redis

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// rightsIn returns the rights that a file lists after some words, to the end of the block.
func rightsIn(t *testing.T, file, after string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), after)
	if !ok {
		t.Fatalf("%s does not say %q", file, after)
	}
	var rights []string
	for word := range strings.FieldsSeq(strings.ReplaceAll(rest, "//", " ")) {
		if word[0] != '+' && word[0] != '~' && word[0] != '&' {
			break
		}
		rights = append(rights, word)
	}
	if len(rights) == 0 {
		t.Fatalf("%s lists no rights after %q", file, after)
	}
	return rights
}

// user adds a user with some rights to a server.
func user(s *servertest.Server, rights ...string) {
	s.Redis(append([]string{"ACL", "SETUSER", "locks", "on", ">secret"}, rights...))
}

// everything makes all calls of a driver, for a user with listed rights.
func everything(t *testing.T, d driver.Driver) {
	t.Helper()
	notes := d.Traits().Remarks()
	if slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "does not let") }) {
		t.Errorf("the driver could not ask everything: %q", notes)
	}
	a, b := claim("name", "a"), claim("name", "b")
	servertest.Until(t, "the lock is had", func() bool { // in Redlock, after all servers have answered
		p, err := d.Enter(timely(t), a)
		a.Ticket = p.Ticket
		return err == nil && p.Holds
	})
	enter(t, d, b)
	if r := d.Renew(timely(t), []*driver.Claim{a})[0]; r.Err != nil || r.TTL <= a.TTL/2 {
		t.Errorf("renewal = %+v", r)
	}
	if list, err := d.(driver.Lister).List(timely(t), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Await(brief, b); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await = %v", err)
	}
	if w, ok := d.(driver.Watcher); ok {
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := w.Watch(brief, "name", func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("watch = %v", err)
		}
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: a, Keep: 100 * time.Millisecond}); err != nil {
		t.Errorf("leave = %v", err)
	}
	servertest.Until(t, "the waiter holds", func() bool { return enter(t, d, b).Holds })
	if _, err := d.(driver.Breaker).Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil {
		t.Errorf("break = %v", err)
	}
	delayed := claim("name", "delayed")
	delayed.Delay = time.Second
	enter(t, d, delayed)
	if r := d.Renew(timely(t), []*driver.Claim{delayed})[0]; r.Err != nil {
		t.Errorf("renewal of a claim with a lock-delay = %v", r.Err)
	}
	leave(t, d, delayed)
}

// A user with the listed rights can do everything, in every set-up.
func TestListedRights(t *testing.T) {
	t.Parallel()
	queue := rightsIn(t, "redis.go", "ACL SETUSER locks on >… ")
	set := rightsIn(t, "redis.go", "For layout setnx a user needs, with the beginning of the names in place of ~*,\n//\n//\tACL SETUSER locks on >… ")
	if page := rightsIn(t, "../../docs/stores/setnx.md", "ACL SETUSER locks on >… "); !slices.Equal(page, set) {
		t.Errorf("docs/stores/setnx.md lists the rights %q, and redis.go %q", page, set)
	}
	cluster := rightsIn(t, "redis.go", "in a cluster ")
	sentinel := rightsIn(t, "redis.go", "for sentinel_user,")
	redlock := rightsIn(t, "../../docs/stores/redlock.md", "ACL SETUSER locks on >… ")

	tests := map[string]func(t *testing.T, rights []string) string{
		"single": func(t *testing.T, rights []string) string {
			s := servertest.Redis(t)
			user(s, rights...)
			return "redis://locks:secret@" + s.Addr
		},
		"sentinel": func(t *testing.T, rights []string) string {
			set := servertest.RedisSentinel(t)
			user(set.Primary, rights...)
			user(set.Replica, rights...)
			user(set.Sentinel, sentinel...)
			return "redis+sentinel://locks:secret@" + set.Sentinel.Addr + "/" + set.Name +
				"?sentinel_user=locks&sentinel_password=secret"
		},
		"cluster": func(t *testing.T, rights []string) string {
			nodes := servertest.RedisCluster(t)
			for _, s := range nodes {
				user(s, append(slices.Clone(cluster), rights...)...)
			}
			return "redis+cluster://locks:secret@" + nodes[0].Addr
		},
	}
	for name, url := range tests {
		for layout, rights := range map[string][]string{layoutQueue: queue, layoutSetNX: set} {
			t.Run(name+" "+layout, func(t *testing.T) {
				t.Parallel()
				at := url(t, rights)
				sign := "?"
				if strings.Contains(at, "?") {
					sign = "&"
				}
				d, err := driver.Open(timely(t), at+sign+"layout="+layout)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				if want := (layout == layoutQueue || name != "cluster"); (d.Traits().Wake == "push") != want {
					t.Errorf("the server tells: %q, want push: %v", d.Traits().Wake, want)
				}
				everything(t, d)
			})
		}
	}
	t.Run("redlock", func(t *testing.T) {
		t.Parallel()
		var hosts []string
		for range 3 {
			s := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
			user(s, redlock...)
			hosts = append(hosts, s.Addr)
		}
		d, err := driver.Open(timely(t), "redlock://locks:secret@"+strings.Join(hosts, ","))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		everything(t, d)
	})
}

// A client does not treat a cluster whose user may not list the servers as one server, which would lack most names.
func TestClusterThatDoesNotTell(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	for _, s := range nodes {
		user(s, "~*", "&*", "+@all", "-cluster")
	}
	for _, hosts := range []string{nodes[0].Addr, nodes[0].Addr + "," + nodes[1].Addr} {
		_, err := tryOpen(t, "redis+cluster://locks:secret@"+hosts)
		says(t, err, "does not let user \"locks\" do this", "cluster|")
		if err != nil {
			marks(t, err, true, false)
		}
	}
	_, err := tryOpen(t, "redis+cluster://"+servertest.Redis(t).Addr)
	says(t, err, "redis is no cluster here: use redis://")
	if err != nil {
		marks(t, err, true, false)
	}
}
