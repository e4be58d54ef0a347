package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/elect"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/servertest"
)

func stand(name string, cmd []string, flags ...string) []string {
	return slices.Concat([]string{"elect", name}, flags, cmd)
}

// leader reads one line of elect --watch --json.
func (p *process) leader() elect.LeaderView {
	p.t.Helper()
	line := p.line()
	var v elect.LeaderView
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		p.t.Fatalf("%v: %s", err, line)
	}
	return v
}

func TestElect(t *testing.T) {
	for _, store := range []struct {
		name string
		url  func(t *testing.T, u *account) string
	}{
		{"sqlite", func(_ *testing.T, u *account) string { return "sqlite://" + u.home + "/locks.db" }},
		{"redis", func(t *testing.T, _ *account) string { return "redis://" + servertest.Redis(t).Addr }},
		{"zookeeper", func(t *testing.T, _ *account) string { return "zk://" + servertest.ZooKeeper(t).Addr }},
		{"service", func(_ *testing.T, u *account) string {
			_, url := u.serve()
			return url
		}},
	} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			u.at(store.url(t, u))
			watch := u.start("elect", "a", "--watch", "--json")
			if v := watch.leader(); v.Leads || v.Ticket != "" || v.Name != "a" {
				t.Errorf("before anybody stands: %+v", v)
			}
			one := u.start(stand("a", idle, "--value", "10.0.0.1:80", "--owner", "ann", "--reason", "test")...)
			one.line()
			first := watch.leader()
			if !first.Leads || first.Value != "10.0.0.1:80" || first.Owner != "ann" || first.Reason != "test" || first.PID != one.cmd.Process.Pid {
				t.Errorf("the first leader: %+v", first)
			}
			two := u.start(stand("a", idle)...)
			until(t, "the second stands in line", func() bool { return len(u.show("a").Claims) == 2 })
			one.stdin.Close()
			if got := one.wait(); got != 0 {
				t.Errorf("the first leader ended with status %d: %s", got, one.stderr)
			}
			two.line()
			next := watch.leader()
			if !next.Leads { // the moment between two leaders was seen
				next = watch.leader()
			}
			host, err := os.Hostname()
			if err != nil || next.Value != host || next.PID != two.cmd.Process.Pid || number(t, next.Ticket) <= number(t, first.Ticket) {
				t.Errorf("the next leader: %+v, %v; want value %s", next, err, host)
			}
			two.stdin.Close()
			if v := watch.leader(); v.Leads {
				t.Errorf("after both have resigned: %+v", v)
			}
			watch.signal(2)
			if got := watch.wait(); got != 130 {
				t.Errorf("interrupted: status %d, want 130", got)
			}
		})
	}
}

func number(t *testing.T, digits string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestElectEnvironmentAndStatus(t *testing.T) {
	u := newAccount(t)
	u.env = append(u.env, "STILE_VALUE=stale")
	out := u.must("elect", "a", "--value", "10.0.0.1:80 \u202e", "--", "sh", "-c", `echo "$STILE_NAME|$STILE_VALUE|$STILE_TOKEN|$STILE_DEADLINE"; stile_left=1`)
	if got := strings.Split(strings.TrimSpace(out), "|"); len(got) != 4 || got[0] != "a" || got[1] != "10.0.0.1:80 \u202e" || got[2] == "" || got[3] == "" {
		t.Errorf("CMD got %q", got)
	}
	if got := u.run("run", "a", "--", "sh", "-c", `test -z "$STILE_VALUE"`); got.code != 0 {
		t.Errorf("stile run hands on a value that is not its own: %+v", got)
	}
	holder := u.start(with("held", idle, "--owner", "nightly")...)
	holder.line()
	for _, tt := range []struct {
		args []string
		want int
		err  string // what stderr begins with
	}{
		{[]string{"elect", "a", "--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"elect", "a", "--", "no-such-command"}, 127, "stile: no-such-command is not found in PATH\n"},
		{[]string{"elect", "held", "--try", "--", "true"}, 75, `stile: try "held": held by nightly on `},
		{[]string{"elect", "a"}, 64, "stile: stile elect needs one NAME, then --, then CMD, or else --watch"},
		{[]string{"elect", "a", "true"}, 64, "stile: there is no -- between NAME and CMD; as in: stile elect a -- true"},
		{[]string{"elect", "a", "--watch", "--", "true"}, 64, "stile: stile elect --watch needs one NAME, and no CMD"},
		{[]string{"elect", "--watch"}, 64, "stile: stile elect --watch needs one NAME, and no CMD"},
		{[]string{"elect", "a", "--watch", "--value", "x"}, 64, "stile: --value does not go with --watch, which does not stand for leader\n"},
		{[]string{"elect", "a", "--json", "--", "true"}, 64, "stile: --json goes with --watch\n"},
		{[]string{"elect", "a", "--read", "--", "true"}, 64, "stile: unknown flag: --read\n"},
		{[]string{"elect", "a", "--value", strings.Repeat("x", driver.MaxRecord), "--", "true"}, 64, `stile: lock "a": invalid holder: owner, reason and value take `},
		{[]string{"elect", "", "--watch"}, 64, `stile: NAME "": the name is empty`},
	} {
		t.Run(strings.Join(tt.args, " ")[:min(40, len(strings.Join(tt.args, " ")))], func(t *testing.T) {
			r := u.run(tt.args...)
			if r.code != tt.want || !strings.HasPrefix(r.err, tt.err) || (r.err == "") != (tt.err == "") {
				t.Errorf("status %d, stderr %q; want %d, %q", r.code, r.err, tt.want, tt.err)
			}
		})
	}
}

// A leader that is deposed has its whole group killed, and says why.
func TestElectLost(t *testing.T) {
	u := newAccount(t)
	p := u.start(stand("a", family, "--ttl", "6s")...)
	pids := []int{p.pid(), p.pid(), p.pid()}
	u.must("break", "a", "--yes", "--reason", "test")
	if got, want := p.wait(), `stile: elect "a": the lock was lost while CMD ran: the store no longer has it: `; got != 79 || !strings.HasPrefix(p.stderr.String(), want) {
		t.Errorf("status %d: %s; want 79: %s", got, p.stderr, want)
	}
	if left := demotest.Living(pids); left != nil {
		t.Errorf("processes %v are left", left)
	}
}

// Whoever watches an election, or a queue, goes on watching when the store was away.
func TestWatchOutlivesTheServer(t *testing.T) {
	u := newAccount(t)
	server := servertest.Redis(t)
	u.at("redis://" + server.Addr)
	watches := []*process{u.start("elect", "a", "--watch"), u.start("watch", "a", "--json")}
	if got := watches[0].line(); !strings.HasSuffix(got, " nobody leads") {
		t.Errorf("got %q", got)
	}
	watches[1].line()
	server.Stop()
	for _, p := range watches {
		until(t, "the watch says that the store is away", func() bool {
			return strings.Contains(p.stderr.String(), "trying again until the store answers\n")
		})
	}
	server.Restart()
	u.start(stand("a", idle, "--value", "10.0.0.1:80")...).line()
	for !strings.Contains(watches[0].line(), " 10.0.0.1:80 leads, from token ") {
	}
	for !strings.Contains(watches[1].line(), `"value":"10.0.0.1:80"`) {
	}
	for _, p := range watches {
		// A second one, if the server answered once more while it ended.
		if n := strings.Count(p.stderr.String(), "\n"); n < 1 || n > 2 {
			t.Errorf("%v said %q; want one warning", p.cmd.Args, p.stderr)
		}
	}
}
