package goredis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	stileredis "github.com/stilelock/stile/store/redis"
)

func timely(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// locks takes a lock by the driver, checks that it is a key of this server, and releases it.
func locks(t *testing.T, d *stileredis.Driver, err error, key string, exists func(key string) bool) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	client, err := stile.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("order").Do(timely(t), func(context.Context) error {
		if !exists(key) {
			t.Errorf("there is no key %s while the lock is held", key)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A client of one server: with a password, a database and a prefix.
func TestSingle(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Redis([]string{"ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all"})
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "locker", Password: "secret", DB: 3})
	defer client.Close()
	d, err := Open(timely(t), client, &Options{Prefix: "mine:"})
	locks(t, d, err, "mine:{order}", func(key string) bool { return client.Exists(timely(t), key).Val() == 1 })
	if err := client.Ping(timely(t)).Err(); err != nil {
		t.Errorf("the client is of no use after the locks were closed: %v", err)
	}
}

// The driver asks the credentials provider at each connecting.
func TestCredentialsProvider(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--requirepass", "secret")
	var asked atomic.Int64
	provider := func() (string, string) { asked.Add(1); return "default", "secret" }
	withContext := func(context.Context) (string, string, error) { asked.Add(1); return "default", "secret", nil }
	for name, o := range map[string]*redis.Options{
		"without a context": {CredentialsProvider: provider}, "with one": {CredentialsProviderContext: withContext},
	} {
		o.Addr = s.Addr
		client := redis.NewClient(o)
		defer client.Close()
		before := asked.Load()
		d, err := Open(timely(t), client, nil)
		if asked.Load() == before {
			t.Errorf("%s: the provider was not asked", name)
		}
		locks(t, d, err, "stile/{order}", func(key string) bool { return client.Exists(timely(t), key).Val() == 1 })
	}
	wrong := redis.NewClient(&redis.Options{Addr: s.Addr, CredentialsProviderContext: func(context.Context) (string, string, error) {
		return "", "", errors.New("the vault is shut")
	}})
	defer wrong.Close()
	if d, err := Open(timely(t), wrong, nil); err == nil || !strings.Contains(err.Error(), "the vault is shut") {
		t.Errorf("a provider that fails: %v, %v; want its error", d, err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, authority := servertest.RedisTLS(t)
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	defer client.Close()
	d, err := Open(timely(t), client, nil)
	locks(t, d, err, "stile/{order}", func(key string) bool { return client.Exists(timely(t), key).Val() == 1 })

	strangers := redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	defer strangers.Close()
	if _, err := Open(timely(t), strangers, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the authority: %v; want an error about the certificate", err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	servers := servertest.RedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].Addr}})
	defer client.Close()
	d, err := Open(timely(t), client, nil)
	locks(t, d, err, "stile/{order}", func(key string) bool { return client.Exists(timely(t), key).Val() == 1 })
}

func TestFailover(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	o := &redis.FailoverOptions{MasterName: set.Name, SentinelAddrs: []string{set.Sentinel.Addr}}
	client := redis.NewFailoverClient(o)
	defer client.Close()
	if _, err := Open(timely(t), client, nil); err == nil || !strings.Contains(err.Error(), "OpenFailover") {
		t.Errorf("a client of Sentinels: %v; want an error that names OpenFailover", err)
	}
	d, err := OpenFailover(timely(t), o, nil)
	locks(t, d, err, "stile/{order}", func(key string) bool { return client.Exists(timely(t), key).Val() == 1 })
}

type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook                               { return next }
func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook                      { return next }
func (hook) ProcessPipelineHook(n redis.ProcessPipelineHook) redis.ProcessPipelineHook { return n }

type limiter struct{}

func (limiter) Allow() error       { return nil }
func (limiter) ReportResult(error) {}

// Options that cannot be copied are refused by name, before the driver connects.
func TestRefused(t *testing.T) {
	t.Parallel()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	connected := func(context.Context, *redis.Conn) error { return nil }
	newClient := func(o *redis.Options) *redis.Client {
		o.MaxRetries = 1
		return redis.NewClient(o)
	}
	const nowhere = "127.0.0.1:1"
	single := func(o redis.Options) redis.UniversalClient {
		if o.Addr == "" {
			o.Addr = nowhere
		}
		return redis.NewClient(&o)
	}
	cluster := func(o redis.ClusterOptions) redis.UniversalClient {
		o.Addrs = []string{nowhere}
		return redis.NewClusterClient(&o)
	}
	hooked, hookedCluster := single(redis.Options{}), cluster(redis.ClusterOptions{})
	hooked.AddHook(hook{})
	hookedCluster.AddHook(hook{})
	for _, c := range []struct {
		client redis.UniversalClient
		want   string
	}{
		{single(redis.Options{Dialer: dial}), "option Dialer"},
		{single(redis.Options{OnConnect: connected}), "option OnConnect"},
		{single(redis.Options{Limiter: limiter{}}), "option Limiter"},
		{single(redis.Options{Network: "unix", Addr: "/nowhere"}), "option Network unix"},
		{cluster(redis.ClusterOptions{Dialer: dial}), "option Dialer"},
		{cluster(redis.ClusterOptions{OnConnect: connected}), "option OnConnect"},
		{cluster(redis.ClusterOptions{NewClient: newClient}), "option NewClient"},
		{cluster(redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }}), "option ClusterSlots"},
		{hooked, "has hooks"},
		{hookedCluster, "has hooks"},
		{redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": nowhere}}), "*redis.Ring is not supported"},
		{nil, "the client is nil"},
		{(*redis.Client)(nil), "the client is nil"},
		{(*redis.ClusterClient)(nil), "the client is nil"},
	} {
		d, err := Open(timely(t), c.client, nil)
		if err == nil || d != nil || !strings.Contains(err.Error(), c.want) || driver.OutcomeOf(err) != driver.OutcomeRefused {
			t.Errorf("%s: got %v, %v", c.want, d, err)
		}
	}
	for want, o := range map[string]*redis.FailoverOptions{
		"option Dialer":       {MasterName: "main", Dialer: dial},
		"option OnConnect":    {MasterName: "main", OnConnect: connected},
		"option ReplicaOnly":  {MasterName: "main", ReplicaOnly: true},
		"MasterName is empty": {SentinelAddrs: []string{nowhere}},
		"want host:port":      {MasterName: "main"},
		"are nil":             nil,
	} {
		if d, err := OpenFailover(timely(t), o, nil); err == nil || d != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v", want, d, err)
		}
	}
}

// A client without hooks, dialer or limiter is accepted, and hooks can be ignored.
func TestTaken(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	if err := unhooked(client); err != nil {
		t.Error(err)
	}
	client.AddHook(hook{})
	d, err := Open(timely(t), client, &Options{IgnoreHooks: true})
	locks(t, d, err, "stile/{order}", func(key string) bool { return client.Exists(timely(t), key).Val() == 1 })
}
