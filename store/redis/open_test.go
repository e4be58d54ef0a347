package redis

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func TestBadAddresses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ url, want string }{
		{"redis://h?ttl=3", `unknown parameter "ttl" for redis://; known: dial_timeout, layout, prefix`},
		{"rediss://h?ttl=3", "known: dial_timeout, layout, prefix, tls_ca, tls_cert, tls_key, tls_server_name"},
		{"redis+sentinel://h/main?ttl=3", "known: dial_timeout, layout, prefix, sentinel_password, sentinel_user"},
		{"redis://h?tls_ca=x", `unknown parameter "tls_ca" for redis://`},
		{"redis://h?prefix=a{b}", "must not have braces"},
		{"redis://h?dial_timeout=3", "parameter dial_timeout must be a duration"},
		{"redis://h/x", `the database must be a number, not "x"`},
		{"redis://h/-1", "the database must be a number"},
		{"redis://h1,h2", "redis:// takes one host; for more there are redis+sentinel:// and redis+cluster://"},
		{"redis+sentinel://h", "needs the name of the primary, as in redis+sentinel://host/mymaster"},
		{"redis+sentinel://h/main/x", "the database must be a number"},
		{"redis+cluster://h/1", "a redis cluster has no databases"},
		{"rediss://h?tls_ca=/does/not/exist", "parameter tls_ca: open /does/not/exist"},
		{"rediss://h?tls_ca=" + empty, "has no certificate"},
		{"rediss://h?tls_cert=" + empty, "must be given together"},
		{"rediss://h?tls_cert=" + empty + "&tls_key=" + empty, "parameters tls_cert and tls_key: "},
	}
	for _, test := range tests {
		_, err := driver.Open(t.Context(), test.url)
		says(t, err, test.want)
		if err != nil {
			marks(t, err, true, false)
		}
	}
}

const canary = "hunter2-canary"

// The errors distinguish a wrong password, a missing one and a user without rights, and never show a password.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--requirepass", "right", "--user", "bob", "on", ">"+canary, "~*", "&*", "+@all", "-info")
	tests := []struct{ login, path, want string }{
		{"", "", "redis asks for a password: put it in the URL as redis://user:password@host"},
		{":" + canary + "@", "", "redis does not accept the default user with this password"},
		{"alice:" + canary + "@", "", `redis does not accept user "alice" with this password`},
		{canary + "@", "", "redis does not accept what stands before the @ in the URL as a user without a password"},
		{":right@", "/99", "redis has no database of this number"},
		{":right@", "", ""},
		{"default:right@", "/3", ""},
		{"bob:" + canary + "@", "", ""},
	}
	for _, test := range tests {
		d, err := tryOpen(t, "redis://"+test.login+s.Addr+test.path)
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("error %q shows the password", err)
		}
		if test.want == "" {
			if err != nil {
				t.Errorf("open as %q: %v", test.login, err)
				continue
			}
			enter(t, d, claim("name", "id"))
			leave(t, d, claim("name", "id"))
			continue
		}
		says(t, err, test.want)
		if err != nil {
			marks(t, err, true, false)
		}
	}
}

// A user with the documented rights can do everything.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	rights := rightsIn(t, "redis.go", "ACL SETUSER locks on >… ")
	if page := rightsIn(t, "../../docs/stores/redis.md", "ACL SETUSER locks on >… "); !slices.Equal(page, rights) {
		t.Errorf("docs/stores/redis.md lists the rights %q, and redis.go %q", page, rights)
	}
	user(s, rights...)
	d := open(t, "redis://locks:secret@"+s.Addr)
	if slices.ContainsFunc(d.Traits().Remarks(), func(n string) bool { return strings.Contains(n, "does not let") }) {
		t.Errorf("the driver could not ask everything: %q", d.Traits().Remarks())
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	s.Redis([]string{"SCRIPT", "FLUSH"})
	if r := d.Renew(timely(t), []*driver.Claim{a})[0]; r.Err != nil {
		t.Error(r.Err)
	}
	if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 1 || len(list[0].Claims) != 2 {
		t.Errorf("list: %+v, %v", list, err)
	}
	leave(t, d, a)
	await(t, d, b)
	if _, err := d.Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil {
		t.Error(err)
	}
	s.Redis([]string{"RPUSH", d.key("name"), "x"})
	if _, err := d.Enter(timely(t), a); !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrForeign) {
		t.Error(err)
	}
}

// Without the right to channels, a waiting claim polls.
func TestWithoutChannels(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Redis([]string{"ACL", "SETUSER", "locks", "on", ">secret", "~stile/*", "resetchannels", "+@all"})
	d := open(t, "redis://locks:secret@"+s.Addr)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	if p, err := d.Await(timely(t), b); err != nil || p.Holds {
		t.Errorf("await: %+v, %v; want an early return", p, err)
	}
	leave(t, d, a)
	await(t, d, b)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, authority := servertest.RedisTLS(t)
	d := open(t, "rediss://"+s.Addr+"?tls_ca="+authority)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)

	_, err := tryOpen(t, "rediss://"+s.Addr)
	says(t, err, "cannot connect to redis at "+s.Addr, "certificate")
	_, err = tryOpen(t, "rediss://"+s.Addr+"?tls_server_name=elsewhere&tls_ca="+authority)
	says(t, err, "cannot connect to redis at "+s.Addr, "elsewhere")
	_, err = tryOpen(t, "redis://"+s.Addr+"?dial_timeout=1s")
	says(t, err, "redis at "+s.Addr+" requires TLS: use rediss://")
	if _, err = tryOpen(t, "rediss://"+s.Addr+"?tls_server_name=localhost&tls_ca="+authority); err != nil {
		t.Error(err)
	}
}

func TestTraits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		args    []string
		acl     []string
		restart bool
		notes   []string
		absent  []string
	}{
		{"nothing on disk", nil, nil, false, []string{"keeps no append-only file"}, []string{"evicts", "Replicas"}},
		{"every second", []string{"--appendonly", "yes"}, nil, false, []string{"appendfsync everysec"}, nil},
		{"always", []string{"--appendonly", "yes", "--appendfsync", "always"}, nil, true, nil, []string{"appendfsync"}},
		{"evicts", []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, nil, false,
			[]string{"maxmemory-policy allkeys-lru"}, nil},
		{"no limit", []string{"--maxmemory-policy", "allkeys-lru"}, nil, false, nil, []string{"evicts"}},
		{"without INFO", nil, []string{"-info"}, false, []string{"does not let the default user run INFO"}, nil},
		{"without CONFIG", []string{"--appendonly", "yes"}, []string{"-config"}, false,
			[]string{"does not let the default user read appendfsync"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t, test.args...)
			if test.acl != nil {
				s.Redis(append([]string{"ACL", "SETUSER", "default"}, test.acl...))
			}
			got := open(t, "redis://"+s.Addr).Traits()
			if got.Restart != test.restart || got.Failover {
				t.Errorf("restart %v, failover %v; want %v, false", got.Restart, got.Failover, test.restart)
			}
			notes := strings.Join(got.Remarks(), "\n")
			for _, want := range test.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("notes %q do not say %q", notes, want)
				}
			}
			for _, not := range test.absent {
				if strings.Contains(notes, not) {
					t.Errorf("notes %q say %q", notes, not)
				}
			}
		})
	}
}

// New also reports a server that does not answer.
func TestNewFails(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := New(client, &Options{Prefix: "{}"}); err == nil {
		t.Error("a prefix with braces is taken")
	}
	s.Kill()
	_, err = New(client, nil)
	if err == nil || !driver.IsUnreachable(err) || errors.Is(err, context.Canceled) {
		t.Errorf("New without a server: %v", err)
	}
}
