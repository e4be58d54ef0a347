//go:build unix

package servertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Etcd starts a current etcd server, alone in its cluster, with the arguments added to its command line.
func Etcd(t TB, args ...string) *Server {
	t.Helper()
	return Start(t, lone(etcdBinary(t), nil, args))
}

// EtcdOld starts the oldest etcd that is supported, the one of Debian 12.
func EtcdOld(t TB, args ...string) *Server {
	t.Helper()
	return Start(t, lone("etcd", nil, args))
}

// EtcdTLS starts a current etcd server that speaks only TLS. It returns the file of the authority that signed its
// certificate, which is for 127.0.0.1 and localhost.
func EtcdTLS(t TB, args ...string) (s *Server, authority string) {
	t.Helper()
	files := certificate(t)
	trust, err := files.config()
	if err != nil {
		t.Fatalf("%v", err)
	}
	args = append([]string{"--cert-file", files.cert, "--key-file", files.key}, args...)
	return Start(t, lone(etcdBinary(t), trust, args)), files.authority
}

// EtcdCluster starts a cluster of current etcd servers and returns when each of them serves.
func EtcdCluster(t TB, members int, args ...string) []*Server {
	t.Helper()
	binary := etcdBinary(t)
	for range attempts {
		list, err := etcdCluster(t, binary, members, args)
		if err == nil {
			return list
		}
		t.Logf("the cluster does not come up: %v", err)
		for _, s := range list {
			s.Kill()
		}
	}
	t.Fatalf("the etcd cluster does not come up")
	return nil
}

// Forget kills a server whose data are in the folder data, removes all that it kept, and starts it again, as the same
// cluster by name.
func (s *Server) Forget() {
	s.t.Helper()
	s.Kill()
	if err := os.RemoveAll(filepath.Join(s.Dir, "data")); err != nil {
		s.t.Fatalf("%v", err)
	}
	s.Restart()
}

// etcdBinary is the server that make servers builds.
func etcdBinary(t TB) string {
	t.Helper()
	return built(t, "etcd")
}

// etcdArgs are the arguments of every member: quick elections, so that the shortest lease is a second, and little on
// disk.
func etcdArgs(s *Server, name string, peer int, cluster string, trust *tls.Config, args []string) []string {
	client := "http://" + s.Addr
	if trust != nil {
		client = "https://" + s.Addr
	}
	here := "http://127.0.0.1:" + strconv.Itoa(peer)
	return append([]string{
		"--name", name, "--data-dir", filepath.Join(s.Dir, "data"), "--log-level", "error", "--logger", "zap",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", here, "--initial-advertise-peer-urls", here, "--initial-cluster", cluster,
		"--heartbeat-interval", "50", "--election-timeout", "250", "--unsafe-no-fsync",
	}, args...)
}

func lone(binary string, trust *tls.Config, args []string) Process {
	return Process{
		Binary: binary, Package: "etcd-server", Ports: 2,
		Args: func(s *Server) []string {
			return etcdArgs(s, "lone", s.Ports[1], fmt.Sprintf("lone=http://127.0.0.1:%d", s.Ports[1]), trust, args)
		},
		Ready: func(s *Server) error { return etcdReady(s.Addr, trust) },
	}
}

func etcdCluster(t TB, binary string, members int, args []string) ([]*Server, error) {
	peers, err := freePorts(members)
	if err != nil {
		return nil, err
	}
	var all []string
	for i, port := range peers {
		all = append(all, fmt.Sprintf("m%d=http://127.0.0.1:%d", i, port))
	}
	var list []*Server
	for i, port := range peers {
		list = append(list, Start(t, Process{
			Binary: binary, Package: "etcd-server",
			Args: func(s *Server) []string {
				return etcdArgs(s, fmt.Sprintf("m%d", i), port, strings.Join(all, ","), nil, args)
			},
			// It does not serve before most of the others are there.
			Ready: func(*Server) error {
				c, err := net.DialTimeout("tcp4", "127.0.0.1:"+strconv.Itoa(port), time.Second)
				if err == nil {
					c.Close()
				}
				return err
			},
		}))
	}
	for _, s := range list {
		Until(t, "the member serves", func() bool { err = etcdReady(s.Addr, nil); return err == nil })
	}
	return list, nil
}

// etcdReady asks a member whether it knows a leader and answers.
func etcdReady(addr string, trust *tls.Config) error {
	scheme, transport := "http://", &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}
	if trust != nil {
		scheme = "https://"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+"/health", nil)
	if err != nil {
		return err
	}
	r, err := transport.RoundTrip(ask)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || !strings.Contains(string(text), `"true"`)) {
		err = fmt.Errorf("health: %s", text)
	}
	return err
}
