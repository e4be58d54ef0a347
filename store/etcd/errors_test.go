package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// dial opens a URL, and returns the error. It fails the test if opening takes 7 seconds.
func dial(t testing.TB, url string) error {
	t.Helper()
	over := awake.For(7 * time.Second)
	d, err := driver.Open(timely(t), url)
	if err == nil {
		d.Close()
	}
	select {
	case <-over:
		t.Errorf("opening takes 7s: %v", err)
	default:
	}
	return err
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, want string
		rejected  bool // for good: a repeat fails too
	}{
		{"etcd://stile.invalid", "etcd cannot be reached", false},
		{"etcd://127.0.0.1:1", "refused", false},
		{"etcd://u:hunter2@127.0.0.1:1", "refused", false},
		{"etcd://127.0.0.1/x", "leave out what follows the hosts", true},
		{"etcd://u@127.0.0.1", "a user and a password together", true},
		{"etcd://:hunter2@127.0.0.1", "a user and a password together", true},
		{"etcd://127.0.0.1?x=1", `unknown parameter "x"`, true},
		{"etcd://127.0.0.1?tls_ca=f", `unknown parameter "tls_ca"`, true},
		{"etcd://127.0.0.1?dial_timeout=3", "parameter dial_timeout", true},
		{"etcds://127.0.0.1?tls_ca=/none", "parameter tls_ca", true},
		{"etcds://127.0.0.1?tls_cert=f", "tls_cert and tls_key", true},
	} {
		t.Run(test.url, func(t *testing.T) {
			t.Parallel()
			err := dial(t, test.url)
			says(t, err, test.want)
			if !driver.NotApplied(err) {
				t.Errorf("%v: want it to be rejected", err)
			}
			if driver.IsUnreachable(err) == test.rejected {
				t.Errorf("%v: unreachable %v", err, driver.IsUnreachable(err))
			}
		})
	}
}

func TestServerIsSilent(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	s.Pause()
	defer s.Resume()
	err := dial(t, "etcd://"+s.Addr)
	says(t, err, "no answer in time")
	if !driver.IsUnreachable(err) {
		t.Errorf("%v: want an error that says that etcd was not reached", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, authority := servertest.EtcdTLS(t)
	d, err := driver.Open(timely(t), "etcds://"+s.Addr+"?tls_ca="+authority)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := claimOn("name")
	enter(t, d, c)
	leave(t, d, c)
	servertest.Until(t, "the handshake ends before the driver gives up", func() bool {
		err = dial(t, "etcds://"+s.Addr)
		return err == nil || !strings.Contains(err.Error(), "no answer in time")
	})
	says(t, err, "by TLS", "certificate")
	says(t, dial(t, "etcd://"+s.Addr), "etcd")
}

// guarded turns authentication on. It makes two users with one password: root, who may do everything, and locks, who may use
// the keys under stile/.
func guarded(t testing.TB, s *servertest.Server) {
	t.Helper()
	c := operator(t, s.Addr)
	ctx := timely(t)
	_, e1 := c.UserAdd(ctx, "root", "hunter2")
	_, e2 := c.UserGrantRole(ctx, "root", "root")
	_, e3 := c.RoleAdd(ctx, "locks")
	both := clientv3.PermissionType(clientv3.PermReadWrite)
	_, e4 := c.RoleGrantPermission(ctx, "locks", "stile/", clientv3.GetPrefixRangeEnd("stile/"), both)
	_, e5 := c.UserAdd(ctx, "locks", "hunter2")
	_, e6 := c.UserGrantRole(ctx, "locks", "locks")
	_, e7 := c.AuthEnable(ctx)
	if err := errors.Join(e1, e2, e3, e4, e5, e6, e7); err != nil {
		t.Fatal(err)
	}
}

// root returns a client that has just logged in.
func root(t testing.TB, s *servertest.Server) *clientv3.Client {
	t.Helper()
	var c *clientv3.Client
	servertest.Until(t, "root has logged in", func() (in bool) {
		var err error
		// Without a timeout, a login without an answer would wait for ever.
		c, err = clientv3.New(clientv3.Config{
			Endpoints: []string{s.Addr}, Username: "root", Password: "hunter2",
			Logger: zap.NewNop(), DialTimeout: 10 * time.Second,
		})
		return err == nil
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestUsers(t *testing.T) {
	t.Parallel()
	for version, start := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			// The server forgets a login after a second without use.
			s := start(t, "--auth-token-ttl", "1")
			guarded(t, s)
			for url, want := range map[string]string{
				"etcd://" + s.Addr:                "asks for a user",
				"etcd://locks:wrong@" + s.Addr:    `does not accept user "locks" with this password`,
				"etcd://nobody:hunter2@" + s.Addr: `does not accept user "nobody" with this password`,
				"etcd://locks:hunter2@" + s.Addr + "?prefix=else/": `does not let user "locks" ` +
					`read and write the keys under "else/"`,
			} {
				err := dial(t, url)
				says(t, err, want)
				if !driver.NotApplied(err) || driver.IsUnreachable(err) {
					t.Errorf("%s: %v; want it to be rejected for good", url, err)
				}
			}
			d, err := driver.Open(timely(t), "etcd://locks:hunter2@"+s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			c, waiter := claimOn("name"), claimOn("name")
			enter(t, d, c)
			enter(t, d, waiter)
			// A change of the users ends all logins.
			if _, err := root(t, s).UserAdd(timely(t), "other", "hunter2"); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(2500*time.Millisecond, func() { leave(t, d, c) })
			ctx := timely(t)
			for held := false; !held; {
				p, err := d.Await(ctx, waiter)
				if err != nil {
					t.Fatalf("await: %v", err)
				}
				held = p.Holds || enter(t, d, waiter).Holds
			}
			if err := renew(t, d, waiter); err != nil {
				t.Errorf("renewal after the login was forgotten = %v; want nil", err)
			}
			leave(t, d, waiter)
			// The right to write is taken away under a holder.
			enter(t, d, claimOn("late"))
			end := clientv3.GetPrefixRangeEnd("stile/")
			if _, err := root(t, s).RoleRevokePermission(timely(t), "locks", "stile/", end); err != nil {
				t.Fatal(err)
			}
			_, err = d.Enter(timely(t), claimOn("denied"))
			says(t, err, `does not let user "locks"`)
		})
	}
}
