package main

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// unheard is a stile whose stderr nobody reads any more.
func (u *account) unheard(args ...string) *exec.Cmd {
	u.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		u.t.Fatal(err)
	}
	r.Close()
	u.t.Cleanup(func() { w.Close() })
	cmd := u.command(binary, args...)
	cmd.Stderr = w
	return cmd
}

// A job goes on when the reader of stile's stderr has gone, and its lock is released.
func TestRunOutlivesItsLog(t *testing.T) {
	for _, verb := range []string{"run", "elect"} {
		u := newAccount(t)
		if out, err := u.unheard(verb, "a", "-v", "--", "echo", "done").Output(); err != nil || string(out) != "done\n" {
			t.Errorf("stile %s: %q, %v; want that CMD runs to its end", verb, out, err)
		}
		if claims := u.show("a").Claims; len(claims) != 0 {
			t.Errorf("stile %s: the lock is still taken: %+v", verb, claims)
		}
	}
}

// So do the jobs of stile cron.
func TestCronOutlivesItsLog(t *testing.T) {
	u := newAccount(t)
	cmd := u.unheard("cron", u.crontab("@every 1s poll -- echo run"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "run\n" {
		t.Errorf("%q, %v; want a run", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v; want status 0", err)
	}
}
