package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

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
	proxy := servertest.Nginx(t, cert, key, replicas[0], replicas[1])
	at := fmt.Sprintf("stiles://%s?tls_ca=%s&token_file=%s", proxy.Addr, cert, file)
	client := newAccount(t).at(at)
	first := client.start("run", "a", "--ttl", "10m", "--", "cat")
	until(t, "the first holds", func() bool { return len(u.show("a").Claims) == 1 })
	granted := slices.IndexFunc(replicas, func(at string) bool {
		return strings.Contains(metricsOf(t, at, token), `stile_serve_requests_total{request="POST /v1/enter",code="ok"}`)
	})
	if granted < 0 {
		t.Fatal("no replica has answered the Enter")
	}
	second := client.start("run", "a", "--ttl", "10m", "--", "cat") // so it hears of a break by an alert, or much later
	until(t, "the second waits", func() bool { return len(u.show("a").Claims) == 2 })
	machines[granted].signal(syscall.SIGKILL)
	first.stdin.Close()
	if code := first.wait(); code != 0 {
		t.Errorf("the first run = %d; want 0: %s", code, first.stderr)
	}
	until(t, "the second holds", func() bool { c := u.show("a").Claims; return len(c) == 1 && c[0].State == "holds" })
	client.must("break", "a", "--reason", "a test", "--yes")
	if code := second.wait(); code != 79 {
		t.Errorf("the second run = %d; want 79, since its lock was broken: %s", code, second.stderr)
	}
	machines[1-granted].ends(syscall.SIGTERM)
}

// metricsOf returns the metrics of a replica, whose only name is the proxy's.
func metricsOf(t *testing.T, replica, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+replica+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "locks.example.org"
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s", res.Status, err, text)
	}
	return string(text)
}
