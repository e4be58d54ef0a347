package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// consulBinary is Consul's own command.
func consulBinary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/consul")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// consulLock starts consul lock by a service. Its child says that the lock is held, and waits for a line.
func (u *account) consulLock(addr string, args ...string) *process {
	u.t.Helper()
	all := append([]string{"lock", "-http-addr=" + addr, "-child-exit-code", "-pass-stdin"}, args...)
	cmd := exec.Command(consulBinary(u.t), append(all, "echo held; read line; echo done")...)
	cmd.Env, cmd.Dir = u.env, u.home
	return u.launch(cmd)
}

// finishes lets the child of consul lock end. It fails if the child was killed before that.
func (p *process) finishes() {
	p.t.Helper()
	p.stdin.Close()
	if line := p.line(); line != "done" {
		p.t.Errorf("the child says %q", line)
	}
	if code := p.wait(); code != 0 {
		p.t.Errorf("%v = %d: %s", p.cmd.Args, code, p.stderr)
	}
}

// Consul's own command takes the locks of a store by the service, as it is. It and stile run exclude each other, and it holds
// on while replicas are killed and restarted.
func TestConsulLock(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(u *account){
		"sqlite":   func(*account) {},
		"postgres": func(u *account) { u.at("postgres://postgres@" + servertest.Postgres(u.t).Addr + "/postgres") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			open(u)
			keys := filepath.Join(u.home, "keys")
			first, url := u.serve("--consul", "--keys", keys)
			balancer := servertest.NewProxy(t, strings.TrimPrefix(url, "stile://"))
			p := u.consulLock(balancer.Addr, "a")
			if line := p.line(); line != "held" {
				t.Fatalf("the child says %q", line)
			}
			if r := u.run("run", "a", "--wait", "0", "--", "true"); r.code != 75 {
				t.Errorf("stile run beside consul lock = %d; want 75: the lock is held", r.code)
			}
			second, other := u.serve("--consul", "--keys", keys)
			balancer.Retarget(strings.TrimPrefix(other, "stile://"))
			first.signal(syscall.SIGKILL)
			first.wait()
			moved := balancer.Asked()
			until(t, "consul lock asks another replica", func() bool { return balancer.Asked() > moved })
			third, last := u.serve("--consul", "--keys", keys)
			balancer.Retarget(strings.TrimPrefix(last, "stile://"))
			moved = balancer.Asked()
			second.ends(syscall.SIGTERM)
			until(t, "consul lock asks the last replica", func() bool { return balancer.Asked() > moved })
			if got := u.show("a").Claims; len(got) != 1 {
				t.Errorf("the queue after the replicas = %+v; want the holder", got)
			}
			p.finishes()
			if n := len(u.show("a").Claims); n != 0 {
				t.Errorf("%d claims are left", n)
			}
			run := u.start("run", "a", "--", "sh", "-c", "echo held; cat")
			run.line()
			for _, tt := range []struct {
				flags []string
				want  int
			}{{[]string{"-try", "500ms", "a"}, 1}, {[]string{"-try", "10s", "b"}, 0}} {
				cmd := exec.Command(consulBinary(t), append([]string{"lock", "-verbose", "-http-addr=" + balancer.Addr},
					append(tt.flags, "true")...)...)
				cmd.Env, cmd.Dir = u.env, u.home
				if p := u.launch(cmd); p.wait() != tt.want {
					t.Errorf("%v: %s; want %d", tt.flags, p.stderr, tt.want)
				}
			}
			waits := u.consulLock(balancer.Addr, "a")
			run.stdin.Close()
			if code := run.wait(); code != 0 {
				t.Errorf("stile run = %d: %s", code, run.stderr)
			}
			if line := waits.line(); line != "held" {
				t.Errorf("a waiting consul lock says %q", line)
			}
			waits.finishes()
			third.ends(syscall.SIGTERM)
		})
	}
}

// consul lock -n shares the permits of a name with stile run.
func TestConsulSemaphore(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	m, url := u.serve("--consul", "--keys", filepath.Join(u.home, "keys"))
	addr := strings.TrimPrefix(url, "stile://")
	first := u.consulLock(addr, "-n", "2", "a")
	first.line()
	run := u.start("run", "a", "--permits", "1", "--of", "2", "--", "sh", "-c", "echo held; cat")
	run.line()
	third := u.consulLock(addr, "-n", "2", "-try", "500ms", "a")
	if code := third.wait(); code != 1 {
		t.Errorf("a third holder of two = %d: %s", code, third.stderr)
	}
	waits := u.consulLock(addr, "-n", "2", "a")
	run.stdin.Close()
	if code := run.wait(); code != 0 {
		t.Errorf("stile run = %d: %s", code, run.stderr)
	}
	if line := waits.line(); line != "held" {
		t.Errorf("a waiting consul lock -n says %q", line)
	}
	for _, flags := range [][]string{{"a"}, {"-n", "3", "a"}} {
		p := u.consulLock(addr, flags...)
		if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "conflict") && !strings.Contains(p.stderr.String(), "does not match") {
			t.Errorf("consul lock %v beside -n 2 = %d: %s", flags, code, p.stderr)
		}
	}
	first.finishes()
	waits.finishes()
	if got := u.show("a").Claims; len(got) != 0 {
		t.Errorf("the claims that are left: %+v", got)
	}
	m.ends(syscall.SIGTERM)
}

// A file of keys that others can read, or that has no keys, is refused.
func TestFileOfKeys(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	for name, tt := range map[string]struct {
		text string
		mode string
		want string
	}{
		"open":  {strings.Repeat("a", 64), "644", "chmod 600"},
		"short": {strings.Repeat("a", 62), "600", "line 1 is no key"},
		"two":   {strings.Repeat("a", 64) + "\nx", "600", "line 2 is no key"},
	} {
		sh := u.command("sh", "-c", `umask 077; printf %s "$1" >"$2"; chmod "$3" "$2"`, "sh", tt.text, name, tt.mode)
		if err := sh.Run(); err != nil {
			t.Fatal(err)
		}
		if r := u.run("serve", "--listen", "127.0.0.1:0", "--keys", name); r.code != 64 || !strings.Contains(r.err, tt.want) {
			t.Errorf("a file %s = %d %s; want %q", name, r.code, r.err, tt.want)
		}
	}
}
