package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that speaks no TLS where the URL wants it, or requires it where the URL does not, is named as the cause, and
// not as one that did not answer.
func TestServerWithTheOtherTransport(t *testing.T) {
	t.Parallel()
	addr := func(s *servertest.Server) string { return s.Addr }
	secured := func(s *servertest.Server, _ string) string { return s.Addr }
	served := func(args ...string) func(t *testing.T) string {
		return func(t *testing.T) string {
			_, url := newAccount(t).serve(args...)
			_, addr, _ := strings.Cut(url, "://")
			return addr
		}
	}
	for _, tt := range []struct {
		name, before, after string // the URL is the address between the two
		server              func(t *testing.T) string
		want                string
	}{
		{"redis", "rediss://", "", func(t *testing.T) string { return addr(servertest.Redis(t)) },
			"redis at ADDR does not speak TLS: use redis:// in place of rediss://"},
		{"redis cluster", "rediss+cluster://", "", func(t *testing.T) string { return addr(servertest.Redis(t)) },
			"redis at ADDR does not speak TLS: use redis+cluster:// in place of rediss+cluster://"},
		{"redis sentinel", "rediss+sentinel://", "/main", func(t *testing.T) string { return servertest.RedisSentinel(t).Sentinel.Addr },
			"redis at ADDR does not speak TLS: use redis+sentinel:// in place of rediss+sentinel://"},
		{"redis with a password", "rediss://:secret@", "", func(t *testing.T) string { return addr(servertest.Redis(t, "--requirepass", "secret")) },
			"redis at ADDR does not speak TLS: use redis:// in place of rediss://"},
		{"redis that requires TLS", "redis://", "", func(t *testing.T) string { return secured(servertest.RedisTLS(t)) },
			"redis at ADDR requires TLS: use rediss:// in place of redis://"},
		{"redlock", "redlocks://", ",127.0.0.1:1,127.0.0.1:2", func(t *testing.T) string { return addr(servertest.Redis(t)) },
			"redis at ADDR does not speak TLS: use redlock:// in place of redlocks://"},
		{"etcd", "etcds://", "", func(t *testing.T) string { return addr(servertest.Etcd(t)) },
			"etcd at ADDR does not speak TLS: use etcd:// in place of etcds://"},
		{"etcd that requires TLS", "etcd://", "", func(t *testing.T) string { return secured(servertest.EtcdTLS(t)) },
			"etcd at ADDR requires TLS: use etcds:// in place of etcd://"},
		{"consul", "consuls://", "", func(t *testing.T) string { return addr(servertest.Consul(t, nil)) },
			"consul at ADDR does not speak TLS: use consul:// in place of consuls://"},
		{"consul that requires TLS", "consul://", "", func(t *testing.T) string { return secured(servertest.ConsulTLS(t)) },
			"consul at ADDR speaks TLS: use consuls:// in place of consul://"},
		{"zookeeper", "zks://", "", func(t *testing.T) string { return addr(servertest.ZooKeeper(t)) },
			"zookeeper at ADDR does not speak TLS: use zk:// in place of zks://"},
		{"zookeeper that requires TLS", "zk://", "", func(t *testing.T) string { return secured(servertest.ZooKeeperTLS(t)) },
			"zookeeper at ADDR requires TLS: use zks:// in place of zk://"},
		{"lock service", "stiles://", "", served(), "the lock service at ADDR does not speak TLS: use stile:// in place of stiles://"},
		{"lock service that requires TLS", "stile://", "", func(t *testing.T) string {
			cert, key := servertest.Certificate(t)
			return served("--tls-cert", cert, "--tls-key", key)(t)
		}, "the lock service at ADDR requires TLS: use stiles:// in place of stile://"},
		{"postgres", "postgres://postgres@", "/postgres?sslmode=require", func(t *testing.T) string { return addr(servertest.Postgres(t)) },
			"postgres at ADDR does not speak TLS: use sslmode=disable, or prefer"},
		{"mysql", "mysql://root@", "/mysql?tls=true", func(t *testing.T) string { return addr(servertest.MySQL(t)) },
			"mysql at ADDR does not speak TLS: use tls=false, or preferred"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host := tt.server(t)
			u := newAccount(t).at(tt.before + host + tt.after)
			want := strings.Replace(tt.want, "ADDR", host, 1)
			for _, verb := range []string{"run a --wait 30s -- true", "wait a --wait 30s", "ls"} {
				got := u.run(strings.Fields(verb)...)
				if got.code != exit.BadUsage || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
					t.Errorf("stile %s: status %d, %q; want %d and %q", verb, got.code, got.err, exit.BadUsage, want)
				}
			}
		})
	}
}

// A server that never answers is named, and so is how long it was given.
func TestSilentServerIsNamed(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	server.Pause()
	t.Cleanup(server.Resume)
	u := newAccount(t).at("redis://" + server.Addr)
	for _, verb := range []string{"run a --wait 300ms -- true", "wait a --wait 300ms", "lock a --wait 300ms"} {
		got := u.run(strings.Fields(verb)...)
		if got.code != exit.Store || !strings.Contains(got.err, "redis://"+server.Addr) || !strings.Contains(got.err, store.ErrSilent.Error()) {
			t.Errorf("stile %s: status %d, %q; want %d, and which server it was", verb, got.code, got.err, exit.Store)
		}
	}
}

// A password of one letter leaves messages as they are.
func TestShortPasswordLeavesWords(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t, "--requirepass", "e")
	u := newAccount(t).at("redis://:e@" + server.Addr)
	u.must("lock", "needle", "--owner", "e", "--ttl", "1m")
	got := u.run("run", "needle", "--try", "--", "true")
	if want := `stile: try "needle": held by e on `; got.code != exit.Held || !strings.HasPrefix(got.err, want) || strings.Contains(got.err, "…") {
		t.Errorf("status %d, %q; want %d, %q", got.code, got.err, exit.Held, want)
	}
	wrong := newAccount(t).at("redis://:o@" + server.Addr)
	if got := wrong.run("ls"); !strings.Contains(got.err, "with this password") || strings.Contains(got.err, ":o@") {
		t.Errorf("a wrong password: %q; want it said, without the password", got.err)
	}
}
