package zookeeper_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

const password = "hunter2"

// refuses checks an error: its text, its outcome, and that it shows no secret.
func refuses(t *testing.T, what string, err error, rejected, unreachable bool, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %q", what, err, want)
		return
	}
	if driver.NotApplied(err) != rejected || driver.IsUnreachable(err) != unreachable {
		t.Errorf("%s: %v: rejected %v, unreachable %v; want %v and %v", what,
			err, driver.NotApplied(err), driver.IsUnreachable(err), rejected, unreachable)
	}
	if text := err.Error(); strings.Contains(text, password) || strings.ContainsAny(text, "\n\r") {
		t.Errorf("%s: %q has the password, or a line break", what, text)
	}
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"zk://h?session=x":              "parameter session must be a duration",
		"zk://h?session=0s":             "parameter session must be from 1ms",
		"zk://h?layout=etcd":            `parameter layout is mutex, rw, latch or semaphore, not "etcd"`,
		"zk://h?acl=world":              `parameter acl is open or creator, not "world"`,
		"zk://h?acl=creator":            "needs a user and a password",
		"zk://:" + password + "@h":      "digest authentication needs a user",
		"zk://a%3Ab:" + password + "@h": "digest authentication needs a user",
		"zk://h//a":                     "the chroot has an empty part",
		"zk://h/a//b":                   "the chroot has an empty part",
		"zk://h/a/../b":                 "must not have a part that is . or ..",
		"zk://h/a%00":                   "control character",
		"zk://h?prefix=/a":              "parameter prefix has an empty part",
		"zk://h?prefix=a/./b":           "must not have a part that is . or ..",
		"zk://h?perfix=a": `unknown parameter "perfix" for zk://; did you mean prefix?; ` +
			`known: acl, layout, prefix, session`,
		"zk://h?tls_ca=/x":               `unknown parameter "tls_ca"`,
		"zks://h?tls_ca=/does/not/exist": "parameter tls_ca: open /does/not/exist",
		"zks://h?tls_cert=/x":            "tls_cert and tls_key must be given together",
	} {
		_, err := driver.Open(t.Context(), url)
		refuses(t, url, err, true, false, want)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	_, err = driver.Open(t.Context(), "zk://u:"+password+"@"+nobody)
	refuses(t, "a port that nobody listens on", err, true, true, "cannot connect to zookeeper at "+nobody+" (tried for ")
	_, err = driver.Open(t.Context(), "zk://u:"+password+"@nobody.invalid")
	refuses(t, "a host that is not there", err, true, true, "cannot connect to zookeeper at nobody.invalid:2181 (tried for ")
	redis := servertest.Redis(t)
	_, err = driver.Open(t.Context(), "zk://"+redis.Addr+"?session=2s")
	refuses(t, "another kind of server", err, true, true, "cannot connect to zookeeper at "+redis.Addr)
}

// TestLoneServer checks the traits and the refusals of one server.
func TestLoneServer(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	url := "zk://" + s.Addr
	a := newAdmin(t, s.Addr)
	a.create("/app", "/app/locks", "/other")

	_, err := driver.Open(t.Context(), url+"/none/such")
	refuses(t, "a chroot that is not there", err, true, false, "there is no node /none/such, which the URL names as the chroot")

	d := open(t, url+"/app/locks/?prefix=x-")
	c := claim("name/1")
	enter(t, d, c, true)
	if got := a.children("/app/locks"); !slices.Equal(got, []string{"x-name%2F1"}) {
		t.Errorf("under the chroot there is %q; want the encoded name after the prefix", got)
	}
	list, err := d.(driver.Lister).List(t.Context(), &driver.Query{})
	if err != nil || len(list) != 1 || list[0].Name != c.Name {
		t.Errorf("list = %+v, %v; want %q", list, err, c.Name)
	}

	bare := open(t, url+"?prefix=")
	if _, err := bare.Enter(t.Context(), claim("zookeeper")); !driver.NotApplied(err) {
		t.Errorf("enter of the reserved name = %v; want it rejected", err)
	}
	enter(t, bare, claim("bare"), true)
	if got := a.children("/bare"); len(got) != 1 {
		t.Errorf("/bare has %q; want one claim", got)
	}

	traits := d.Traits()
	one := func(n string) bool { return strings.Contains(n, "one server") }
	if traits.Failover || !slices.ContainsFunc(traits.Remarks(), one) {
		t.Errorf("traits of one server: %+v", traits)
	}
	long := open(t, url+"?session=5h").Traits()
	if !slices.ContainsFunc(long.Remarks(), func(n string) bool { return strings.Contains(n, "session time is 1m0s") }) {
		t.Errorf("traits after asking for five hours: %q; want the time that the server gave", long.Remarks())
	}
}

func TestForeignNodes(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	const dir = "/stile/foreign"
	a.create("/stile", dir, dir+"/readme", dir+"/__lock__", dir+"/"+strings.Repeat("f", 32)+"__lock__0000000000")
	c, reader := claim("foreign"), claim("foreign")
	if p := enter(t, d, c, false); p.Ahead != 1 || p.Blocker.Weight != driver.All || !p.Blocker.Holds {
		t.Errorf("behind another client's lock: %+v; want one ahead that holds", p)
	}
	reader.Weight = 1
	enter(t, d, reader, false)
	a.remove(dir + "/" + strings.Repeat("f", 32) + "__lock__0000000000")
	if _, err := turn(t.Context(), d, c); err != nil {
		t.Errorf("once the other's lock is gone: %v", err)
	}
	notes := strings.Join(d.Traits().Remarks(), " ")
	if !strings.Contains(notes, dir+"/readme") || !strings.Contains(notes, dir+"/__lock__") {
		t.Errorf("the notes do not name what is no claim: %q", notes)
	}
	leave(t, d, c)
	leave(t, d, reader)
	locks := client(t, "zk://"+s.Addr)
	if err := lock(t, locks, "foreign").Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
	if notes := strings.Join(locks.Traits().Remarks(), " "); !strings.Contains(notes, dir+"/readme") {
		t.Errorf("the notes of the client do not name what is no claim: %q", notes)
	}
}

// A server gives numbers twice when the parent's counter has overflowed. The claim that was made first goes first.
func TestTwins(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	const dir = "/stile/twins"
	a.create("/stile", dir, dir+"/z-lock-0000000001") // a creation counts, so that the next number is 1
	c := claim("twins")
	enter(t, d, c, false)
	a.remove(dir + "/z-lock-0000000001")
	enter(t, d, c, true)
	a.create(dir + "/a-lock-0000000001")
	enter(t, d, c, true)
	next := claim("twins")
	enter(t, d, next, false)
	leave(t, d, c)
	enter(t, d, next, false)
}

func TestDigestAndACL(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	url := "zk://joe:" + password + "@" + s.Addr
	joe := open(t, url)
	c := claim("private")
	enter(t, joe, c, true)
	other, nobody := open(t, "zk://ann:"+password+"@"+s.Addr), open(t, "zk://"+s.Addr)
	_, err := other.Enter(t.Context(), claim("private"))
	refuses(t, "another user", err, true, false, `zookeeper does not let user "ann" do this at /stile/private: its access list`)
	_, err = nobody.Enter(t.Context(), claim("private"))
	refuses(t, "nobody", err, true, false,
		"zookeeper does not let a client without user and password do this at /stile/private")
	_, err = nobody.(driver.Lister).List(t.Context(), &driver.Query{Name: "private"})
	refuses(t, "nobody's list", err, true, false, "access list")
	_, err = nobody.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: "private"})
	refuses(t, "nobody's break", err, true, false, "access list")
	err = nobody.(driver.Watcher).Watch(t.Context(), "private", func() {})
	refuses(t, "nobody's watch", err, true, false, "access list")
	err = nobody.Leave(t.Context(), &driver.Release{Claim: c})
	refuses(t, "nobody's leave", err, true, false, "access list")
	if again := open(t, url); enter(t, again, claim("private"), false).Blocker.Ticket != c.Ticket {
		t.Errorf("the same user does not see the claim")
	}
	public := open(t, strings.Replace(url, "joe", "bob", 1)+"?acl=open&prefix=public/")
	enter(t, public, claim("public"), true)
	enter(t, open(t, "zk://"+s.Addr+"?prefix=public/"), claim("public"), false)
}

// A server requires authentication, and does not accept the client's.
func TestAuthRefused(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t, "-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest")
	_, err := driver.Open(t.Context(), "zk://"+s.Addr)
	refuses(t, "no user", err, true, false, "zookeeper does not accept a client without user and password")
	enter(t, open(t, "zk://joe:"+password+"@"+s.Addr), claim("x"), true)
	s = servertest.ZooKeeper(t, "-Dzookeeper.sessionRequireClientSASLAuth=true",
		"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
	_, err = driver.Open(t.Context(), "zk://joe:"+password+"@"+s.Addr)
	refuses(t, "a user", err, true, false, `zookeeper does not accept user "joe"`)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, authority := servertest.ZooKeeperTLS(t)
	d := open(t, "zks://"+s.Addr+"?tls_ca="+authority)
	enter(t, d, claim("x"), true)
	_, err := driver.Open(t.Context(), "zks://"+s.Addr)
	refuses(t, "an unknown authority", err, true, true, "certificate signed by unknown authority")
	_, err = driver.Open(t.Context(), "zks://"+s.Addr+"?tls_server_name=other.host&tls_ca="+authority)
	refuses(t, "another name", err, true, true, "certificate is valid for localhost, not other.host")
	_, err = driver.Open(t.Context(), "zk://"+s.Addr)
	refuses(t, "no TLS", err, true, false, "zookeeper at "+s.Addr+" requires TLS: use zks://")
}

func TestContractOfReadWriteLayout(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	drivertest.Run(t, drivertest.Store{
		Open:  func(t testing.TB) driver.Driver { return open(t, "zk://"+s.Addr+"?layout=rw&prefix=rw/") },
		Fresh: fresh(s.Addr, "&layout=rw"),
	})
	d, a := open(t, "zk://"+s.Addr+"?layout=rw&prefix=rw/"), newAdmin(t, s.Addr)
	reader := claim("names")
	reader.Weight = 1
	enter(t, d, reader, true)
	enter(t, d, claim("names"), false)
	for i, word := range []string{"__READ__0000000000", "__WRIT__0000000001"} {
		names := a.children("/rw/names")
		if len(names) != 2 || !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, word) }) {
			t.Errorf("claim %d: the nodes are %q; want one that ends in %s", i, names, word)
		}
	}
	if d.Traits().Permits {
		t.Errorf("the layout of the read-write lock has permits")
	}
}

// The server removes a name without claims, and the next claim makes it again.
func TestNameThatVanishes(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t, "-Dznode.container.checkIntervalMs=100")
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	var last int64
	for range 3 {
		c := claim("idle")
		if p := enter(t, d, c, true); p.Ticket <= last {
			t.Errorf("the ticket is %d after %d, although numbers begin anew", p.Ticket, last)
		}
		last = c.Ticket
		leave(t, d, c)
		servertest.Until(t, "the name is gone", func() bool {
			e := wire.Exists("/stile", nil)
			a.do(e)
			return errors.Is(e.Err, wire.NoNode)
		})
	}
}

// A stile client sees the leader that a Curator LeaderLatch elected, with its record, and no candidate leads beside it. With
// layout latch, the latch also takes stile's claims for its own.
func TestLatch(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	a.create("/stile", "/stile/led")
	latch := wire.Create("/stile/led/_c_00112233-4455-6677-8899-aabbccddeeff-latch-", "host-7", wire.Open)
	a.do(latch)
	for layout, word := range map[string]string{"mutex": "-lock-", "latch": "-latch-"} {
		url := "zk://" + s.Addr + "?layout=" + layout
		leader, err := client(t, url).Leader(t.Context(), "led")
		if err != nil || leader.Value != "host-7" {
			t.Errorf("layout %s: the leader is %+v, %v; want host-7", layout, leader, err)
		}
		d, candidate := open(t, url), claim("led")
		enter(t, d, candidate, false)
		if node := a.node(candidate); !strings.Contains(node, word) {
			t.Errorf("layout %s: the node of a claim is %s; want %s in it", layout, node, word)
		}
		leave(t, d, candidate)
	}
}
