//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/redis"  // the scheme redis
	_ "github.com/stilelock/stile/store/remote" // the schemes stile and stiles
)

// serve starts the lock service over a store.
func (r *run) serve(store string, flags ...string) *servertest.Server {
	return servertest.Start(r.host, servertest.Process{
		Binary: r.stile,
		Args: func(s *servertest.Server) []string {
			return append([]string{"serve", "--url", store, "--listen", s.Addr}, flags...)
		},
		Ready: listens,
	})
}

// listens returns nil once a server takes connections.
func listens(s *servertest.Server) error {
	c, err := net.DialTimeout("tcp4", s.Addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

func (r *run) overRedis(flags ...string) *servertest.Server { return r.serve(r.direct(), flags...) }

// direct is the URL of the store itself.
func (r *run) direct() string { return "redis://" + r.redis.Addr }

// consul starts Consul's agent in its development mode, which keeps all in memory.
func (r *run) consul() (*api.Client, *servertest.Server, error) {
	s := servertest.Consul(r.host, map[string]any{"limits": map[string]any{"http_max_conns_per_client": 10_000}})
	s.RestartWith("-dev")
	c, err := api.NewClient(&api.Config{Address: s.Addr})
	if err != nil {
		return nil, nil, err
	}
	self, err := c.Agent().Self()
	if err != nil {
		return nil, nil, err
	}
	r.page.versions = append(r.page.versions, fmt.Sprintf("Consul %v in its development mode, which keeps nothing on disk", self["Config"]["Version"]))
	return c, s, nil
}

// secured starts a service with TLS of its own, and two services behind nginx. It returns the URL of each of the two ways.
func (r *run) secured() (tls, proxied string, err error) {
	cert, key := servertest.Certificate(r.host)
	tls = "stiles://" + r.overRedis("--tls-cert", cert, "--tls-key", key).Addr + "?tls_ca=" + cert

	tokens, file := filepath.Join(r.dir, "tokens.json"), filepath.Join(r.dir, "token")
	token, err := exec.Command(r.stile, "serve", "token", "new", "served", "--allow", "lock,read", "--tokens", tokens).Output()
	if err != nil {
		return "", "", fmt.Errorf("stile serve token: %w", err)
	}
	if err := os.WriteFile(file, token, 0o600); err != nil {
		return "", "", err
	}
	behind := []string{"--tokens", tokens, "--tls-by-proxy", "--host", "locks.example.org"}
	proxy := servertest.Nginx(r.host, cert, key, r.overRedis(behind...).Addr, r.overRedis(behind...).Addr)
	version, err := exec.Command("/usr/sbin/nginx", "-v").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("nginx -v: %w", err)
	}
	_, version2, _ := strings.Cut(strings.TrimSpace(string(version)), "nginx/")
	r.page.versions = append(r.page.versions, "nginx "+version2)
	return tls, "stiles://" + proxy.Addr + "?tls_ca=" + cert + "&token_file=" + file, nil
}
