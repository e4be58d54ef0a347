//go:build unix

package servertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// ConsulFloor is the shortest session of the Consul servers of tests. Without it that is ten seconds.
const ConsulFloor = 300 * time.Millisecond

// ConsulRoot is the token that may do everything on the servers of ConsulACL.
const ConsulRoot = "6f2c6b4e-0000-4000-8000-000000000001"

// ConsulACL starts a Consul server that lets nobody do anything without a token.
func ConsulACL(t TB) *Server {
	t.Helper()
	return Consul(t, map[string]any{"acl": map[string]any{
		"enabled": true, "default_policy": "deny",
		"tokens": map[string]any{"initial_management": ConsulRoot, "agent": ConsulRoot},
	}})
}

// Consul starts a Consul server, alone in its datacenter, with the settings added to its configuration. Its data outlive
// a restart.
func Consul(t TB, settings map[string]any) *Server {
	t.Helper()
	return Start(t, consul(t, settings, "http", nil))
}

// ConsulTLS starts a Consul server that speaks only TLS. It returns the file of the authority that signed its
// certificate, which is for 127.0.0.1 and localhost.
func ConsulTLS(t TB) (s *Server, authority string) {
	t.Helper()
	files := certificate(t)
	trust, err := files.config()
	if err != nil {
		t.Fatalf("%v", err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	return Start(t, consul(t, map[string]any{
		"cert_file": files.cert, "key_file": files.key, "ca_file": files.authority,
	}, "https", client)), files.authority
}

// ConsulCluster starts Consul servers that are one datacenter, with the settings added to the configuration of each, and
// returns when they have a leader that knows all of them.
func ConsulCluster(t TB, servers int, settings map[string]any) []*Server {
	t.Helper()
	ports, err := freePorts(2 * servers)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var gossip []string
	for _, port := range ports[servers:] {
		gossip = append(gossip, fmt.Sprintf("127.0.0.1:%d", port))
	}
	var list []*Server
	for i := range servers {
		own := map[string]any{
			"bootstrap": false, "bootstrap_expect": servers, "node_name": fmt.Sprint("server", i),
			"retry_join": gossip, "retry_interval": "200ms",
		}
		maps.Copy(own, settings)
		p := consul(t, own, "http", nil)
		p.Ports = 1
		files := p.Files
		p.Files = func(s *Server) error {
			s.Ports = []int{s.Ports[0], ports[i], ports[servers+i]}
			return files(s)
		}
		p.Ready = func(s *Server) error { // it has no leader before the others are there
			c, err := net.DialTimeout("tcp4", s.Addr, time.Second)
			if err == nil {
				c.Close()
			}
			return err
		}
		list = append(list, Start(t, p))
	}
	for _, s := range list {
		for i := range list {
			Until(t, "the servers know each other", func() bool {
				return consulReady(http.DefaultClient, "http://"+s.Addr, fmt.Sprint("server", i)) == nil
			})
		}
	}
	return list
}

func consul(t TB, settings map[string]any, scheme string, client *http.Client) Process {
	if client == nil {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	return Process{
		Binary: built(t, "consul"), Ports: 3,
		Files: func(s *Server) error {
			ports := map[string]int{
				"http": -1, "https": -1, "dns": -1, "grpc": -1, "serf_wan": -1, "server": s.Ports[1], "serf_lan": s.Ports[2],
			}
			ports[scheme] = s.Ports[0]
			config := map[string]any{
				"server": true, "bootstrap": true, "node_name": "lone", "data_dir": filepath.Join(s.Dir, "data"),
				"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "ports": ports, "log_level": "WARN",
				"disable_update_check": true, "session_ttl_min": ConsulFloor.String(),
				"performance": map[string]any{"raft_multiplier": 1},
			}
			maps.Copy(config, settings)
			text, err := json.Marshal(config)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(s.Dir, "consul.json"), text, 0o600)
		},
		Args: func(s *Server) []string {
			return []string{"agent", "-config-file", filepath.Join(s.Dir, "consul.json")}
		},
		Ready: func(s *Server) error { return consulReady(client, scheme+"://"+s.Addr, "lone") },
	}
}

// consulReady returns nil once there is a leader that knows a node.
func consulReady(client *http.Client, url, node string) error {
	for _, path := range []string{"/v1/kv/?keys&consistent", "/v1/catalog/node/" + node} {
		ask, err := http.NewRequest(http.MethodGet, url+path, http.NoBody) //nolint:noctx // it answers or fails at once
		if err != nil {
			return err
		}
		ask.Header.Set("X-Consul-Token", ConsulRoot) // which a server without ACLs does not look at
		r, err := client.Do(ask)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		switch {
		case err != nil:
			return err
		case r.StatusCode != http.StatusOK:
			return fmt.Errorf("%s: status %d: %s", path, r.StatusCode, text)
		case string(text) == "null":
			return errors.New("the leader does not know the node yet")
		}
	}
	return nil
}
