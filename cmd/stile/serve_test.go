package main

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var servedAt = regexp.MustCompile(`at (stile://127\.0\.0\.1:\d+)\n`)

// serve starts the lock service over the account's store, and returns its URL.
func (u *account) serve(args ...string) (machine, string) {
	u.t.Helper()
	m := machine{u.start(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)}
	line, err := m.out.ReadString('\n')
	at := servedAt.FindStringSubmatch(line)
	if err != nil || at == nil {
		u.t.Fatalf("the first line is %q, %v: %s", line, err, m.stderr)
	}
	return m, at[1]
}

// Commands lock by the service as they do in its store, and hold on while it is restarted.
func TestServe(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	m, url := u.serve()
	second, other := u.serve() // a replica
	client := newAccount(t).at(url + "," + strings.TrimPrefix(other, "stile://"))
	p := client.start("run", "a", "--", "cat")
	until(t, "the command holds", func() bool { return len(u.show("a").Claims) == 1 })
	if got := client.show("a").Claims; len(got) != 1 || got[0].Ticket != u.show("a").Claims[0].Ticket {
		t.Errorf("the service shows %+v; want what its store shows", got)
	}
	if code := client.start("run", "a", "--wait", "0", "--", "true").wait(); code != 75 {
		t.Errorf("a second run = %d; want 75: the lock is held", code)
	}
	m.ends(syscall.SIGTERM)
	if code := client.start("run", "b", "--", "true").wait(); code != 0 {
		t.Errorf("a run by the other replica = %d; want 0", code)
	}
	p.stdin.Close()
	if code := p.wait(); code != 0 {
		t.Errorf("the first run = %d; want 0: %s", code, p.stderr)
	}
	if n := len(u.show("a").Claims); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	second.ends(syscall.SIGINT)
}

// A service that has nowhere to write its lines serves all the same.
func TestServeWithoutStdout(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	u := newAccount(t)
	cmd := exec.Command("sh", "-c", `exec "$0" serve --listen "$1" >&-`, binary, addr)
	cmd.Env, cmd.Dir = u.env, u.home
	m := machine{u.launch(cmd)}
	if p := newAccount(t).at("stile://"+addr).start("run", "a", "--", "true"); p.wait() != 0 {
		t.Errorf("a run by the service: %s, which says %s", p.stderr, m.stderr)
	}
	res, err := http.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusNotFound || !strings.Contains(string(text), "no request GET /") {
		t.Errorf("a browser gets %s %s", res.Status, text)
	}
	m.ends(syscall.SIGTERM)
}
