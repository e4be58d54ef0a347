package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

var servedAt = regexp.MustCompile(`at (stiles?://127\.0\.0\.1:\d+)\n`)

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
	at := strings.TrimPrefix(url, "stile://")
	if r := u.run("serve", "--listen", at); r.code != 71 || !strings.Contains(r.err, "--listen "+at+": another program listens there; give another port") {
		t.Errorf("a service at the same address = %d: %s; want 71, and what is allowed", r.code, r.err)
	}
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
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || !strings.Contains(string(text), "<title>stile</title>") {
		t.Errorf("a browser gets %s %s", res.Status, text)
	}
	m.ends(syscall.SIGTERM)
}

// Prometheus reads the measurements with a token, by the classes of the command line.
func TestServeMetrics(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	tokens := filepath.Join(u.home, "tokens.json")
	token := strings.TrimSpace(u.must("serve", "token", "new", "ops", "--allow", "lock,read", "--tokens", tokens))
	m, url := u.serve("--tokens", tokens, "--metrics-class", "jobs/")
	client := newAccount(t).at(strings.Replace(url, "stile://", "stile://:"+token+"@", 1))
	client.must("run", "jobs/nightly", "--", "true")
	curl := func(args ...string) string {
		out, err := u.command("curl", append([]string{"-sS", strings.Replace(url, "stile", "http", 1) + "/metrics"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if text := curl(); !strings.Contains(text, "unauthenticated") {
		t.Errorf("without a token curl gets %s", text)
	}
	text := curl("-H", "Authorization: Bearer "+token)
	if want := "\nstile_serve_hold_duration_seconds_count{class=\"jobs/\"} 1\n"; !strings.Contains(text, want) || strings.Contains(text, "nightly") {
		t.Errorf("curl gets %s; want %q in it, and no name", text, want)
	}
	m.ends(syscall.SIGTERM)
}

// A service shows its page unless it is told otherwise.
func TestServePage(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	m, url := u.serve("--page", "off")
	res, err := http.Get(strings.Replace(url, "stile://", "http://", 1) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusNotFound || !strings.Contains(string(text), "no request GET /") {
		t.Errorf("without a page a browser gets %s %s", res.Status, text)
	}
	m.ends(syscall.SIGTERM)
}

// A service with tokens serves clients that have one, from when it is made until it is revoked, and lists only the names
// that they may read.
func TestTokens(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	tokens, file := filepath.Join(u.home, "tokens.json"), filepath.Join(u.home, "token")
	if p := u.start("serve", "--tokens", tokens); p.wait() != 64 {
		t.Errorf("a service without its file of tokens: %s", p.stderr)
	}
	made := u.must("serve", "token", "new", "ops", "--allow", "lock,read,break", "--tokens", tokens)
	m, url := u.serve("--tokens", tokens)
	token := strings.TrimSpace(u.must("serve", "token", "new", "ci", "--allow", "lock,read:ci/", "--tokens", tokens))
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	u.must("lock", "prod/a", "--handle", filepath.Join(u.home, "handle"))
	client := newAccount(t).at(url + "?token_file=" + file)
	if out := client.must("run", "ci/a", "--", binary, "ls"); !strings.Contains(out, "ci/a") || strings.Contains(out, "prod/a") {
		t.Errorf("a run lists %s; want ci/a only", out)
	}
	for what, args := range map[string][]string{"another name": {"run", "prod/b", "--", "true"}} {
		if r := client.run(args...); r.code == 0 || !strings.Contains(r.err, "may not") {
			t.Errorf("%s: %d %s; want a refusal", what, r.code, r.err)
		}
	}
	list := u.must("serve", "token", "list", "--tokens", tokens)
	_, row, _ := strings.Cut(list, "\n")
	_, row, _ = strings.Cut(row, "\n")
	id, _, _ := strings.Cut(row, " ")
	if !strings.Contains(row, "ci") || strings.Contains(list, token) || strings.Contains(list, strings.TrimSpace(made)) {
		t.Errorf("the list is %s; want ci's row last, and no token", list)
	}
	u.must("serve", "token", "revoke", id, "--tokens", tokens)
	for _, at := range []string{url, url + "?token_file=" + file, strings.Replace(url, "://", "://:"+token+"@", 1)} {
		r := newAccount(t).at(at).run("run", "ci/a", "--", "true")
		if r.code == 0 || !strings.Contains(r.err, "no valid credentials") || strings.Contains(r.err, token) {
			t.Errorf("a run without a valid token: %d %s; want a refusal without the token", r.code, r.err)
		}
	}
	m.ends(syscall.SIGTERM)
}

// With TLS, other machines could be served: clients check the certificate, and one that changes is changed without a restart.
// A pair that is none changes nothing.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	tokens, file := filepath.Join(u.home, "tokens.json"), filepath.Join(u.home, "token")
	token := u.must("serve", "token", "new", "ci", "--allow", "lock,read", "--tokens", tokens)
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := servertest.Certificate(t)
	m, url := u.serve("--tokens", tokens, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(url, "stiles://") {
		t.Fatalf("the URL is %s; want the scheme stiles", url)
	}
	client := newAccount(t)
	takes := func(authority string) result {
		return client.at(url+"?tls_ca="+authority+"&token_file="+file).run("run", "a", "--", "true")
	}
	old := filepath.Join(u.home, "old.pem")
	copyFile(t, cert, old)
	if r := takes(old); r.code != 0 {
		t.Errorf("a run: %d %s", r.code, r.err)
	}
	curl := func(args ...string) string {
		c := u.command("curl", append([]string{"-sS", "-i", "-X", "PUT", "--cacert", cert, "-H", "Authorization: Bearer " + strings.TrimSpace(token)}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			return err.Error() + string(out)
		}
		return string(out)
	}
	if out := curl(strings.Replace(url, "stiles://127.0.0.1", "https://localhost", 1) + "/v1/locks/b"); !strings.HasPrefix(out, "HTTP/1.1 200") {
		t.Errorf("curl gets %s", out)
	}
	if out := curl("--tls-max", "1.2", strings.Replace(url, "stiles", "https", 1)+"/v1/locks/b"); !strings.Contains(out, "exit status 35") {
		t.Errorf("curl with TLS 1.2 gets %s; want no handshake", out)
	}
	if err := os.WriteFile(cert, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := takes(old); r.code != 0 {
			t.Errorf("a run, with the pair before: %d %s", r.code, r.err)
		}
	}
	newCert, newKey := servertest.Certificate(t)
	copyFile(t, newCert, cert)
	copyFile(t, newKey, key)
	if r := takes(newCert); r.code != 0 {
		t.Errorf("a run, with the new pair: %d %s", r.code, r.err)
	}
	if r := takes(old); r.code == 0 || !strings.Contains(r.err, "certificate") {
		t.Errorf("a run that trusts the old pair: %d %s; want the certificate's fault", r.code, r.err)
	}
	m.ends(syscall.SIGTERM)
	if said := m.stderr.String(); strings.Count(said, "stays in use") != 1 {
		t.Errorf("the service says %q; want one warning", said)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A break over the service is written with its reason before it is done, and refused if the file does not take its line.
func TestServeAudit(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	for _, args := range [][]string{{"--audit", u.home}, {"--audit", "/dev/full"}, {"--audit-locks"}} {
		if p := u.start(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...); p.wait() != 64 {
			t.Errorf("serve %q: %s; want a usage error", args, p.stderr)
		}
	}
	file := filepath.Join(u.home, "audit")
	m, url := u.serve("--audit", file)
	gone := filepath.Join(u.home, "gone")
	full, fullURL := u.serve("--audit", gone)
	if err := errors.Join(os.Remove(gone), os.Mkdir(gone, 0o700)); err != nil {
		t.Fatal(err)
	}
	u.must("lock", "a", "--handle", filepath.Join(u.home, "handle"))
	if r := newAccount(t).at(fullURL).run("break", "a", "--yes", "--reason", "stuck since noon"); r.code == 0 || !strings.Contains(r.err, "cannot write its audit") {
		t.Errorf("a break without a line: %d %s %s; want a refusal", r.code, r.out, r.err)
	}
	if n := len(u.show("a").Claims); n != 1 {
		t.Errorf("after the refusal there are %d claims; want 1", n)
	}
	newAccount(t).at(url).must("break", "a", "--yes", "--reason", "stuck since noon")
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 2 || strings.Count(string(text), `"reason":"stuck since noon"`) != 2 ||
		!strings.Contains(string(text), `"outcome":"done"`) {
		t.Errorf("the audit is %s, %v; want two lines with the reason", text, err)
	}
	m.ends(syscall.SIGTERM)
	full.ends(syscall.SIGTERM)
}
