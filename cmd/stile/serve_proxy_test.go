package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// nginx starts the proxy of examples/nginx.conf in front of two replicas, and returns its port.
func (u *account) nginx(cert, key string, replicas ...string) int {
	u.t.Helper()
	recipe, err := os.ReadFile("../../examples/nginx.conf")
	if err != nil {
		u.t.Fatal(err)
	}
	port := servertest.Port(u.t)
	conf := fmt.Sprintf("daemon off;\nmaster_process off;\nerror_log stderr;\npid %s/nginx.pid;\nevents {}\nhttp {\naccess_log off;\n%s}\n", u.home,
		strings.NewReplacer("127.0.0.1:7845", replicas[0], "127.0.0.1:7900", replicas[1],
			"listen 8443", fmt.Sprintf("listen 127.0.0.1:%d", port), "cert.pem", cert, "key.pem", key).Replace(string(recipe)))
	file := filepath.Join(u.home, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		u.t.Fatal(err)
	}
	u.launch(u.command("/usr/sbin/nginx", "-e", "stderr", "-p", u.home, "-c", file))
	until(u.t, "nginx listens", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return port
}

// Through a proxy, a lock outlasts the death of the replica that granted it, the next one takes over, and a break is heard.
func TestServeBehindAProxy(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	tokens, file := filepath.Join(u.home, "tokens.json"), filepath.Join(u.home, "token")
	token := u.must("serve", "token", "new", "ci", "--allow", "lock,read,break", "--tokens", tokens)
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	var replicas []string
	var machines []machine
	for range 2 {
		m, at := u.serve("--tokens", tokens, "--tls-by-proxy", "--host", "locks.example.org")
		parsed, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		replicas, machines = append(replicas, parsed.Host), append(machines, m)
	}
	cert, key := servertest.Certificate(t)
	at := fmt.Sprintf("stiles://127.0.0.1:%d?tls_ca=%s&token_file=%s", u.nginx(cert, key, replicas...), cert, file)
	client := newAccount(t).at(at)
	first := client.start("run", "a", "--ttl", "10m", "--", "cat")
	until(t, "the first holds", func() bool { return len(u.show("a").Claims) == 1 })
	second := client.start("run", "a", "--ttl", "10m", "--", "cat") // so it hears of a break by an alert, or much later
	until(t, "the second waits", func() bool { return len(u.show("a").Claims) == 2 })
	machines[0].signal(syscall.SIGKILL)
	first.stdin.Close()
	if code := first.wait(); code != 0 {
		t.Errorf("the first run = %d; want 0: %s", code, first.stderr)
	}
	until(t, "the second holds", func() bool { c := u.show("a").Claims; return len(c) == 1 && c[0].State == "holds" })
	client.must("break", "a", "--reason", "a test", "--yes")
	if code := second.wait(); code != 79 {
		t.Errorf("the second run = %d; want 79, since its lock was broken: %s", code, second.stderr)
	}
	machines[1].ends(syscall.SIGTERM)
}
