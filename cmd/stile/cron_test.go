package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/demotest"
)

// crontab writes a file of jobs, and returns its path.
func (u *account) crontab(lines ...string) string {
	u.t.Helper()
	path := filepath.Join(u.home, "crontab")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// A machine is a stile cron whose commands print to its stdout.
type machine struct{ *process }

// said waits for a text on stderr.
func (m machine) said(text string) {
	m.t.Helper()
	until(m.t, text+" is logged; so far: "+m.stderr.String(), func() bool { return strings.Contains(m.stderr.String(), text) })
}

// ends sends a signal, and wants status 0.
func (m machine) ends(s syscall.Signal) {
	m.t.Helper()
	m.signal(s)
	if got := m.wait(); got != 0 {
		m.t.Errorf("status %d after %v, want 0: %s", got, s, m.stderr)
	}
}

func (u *account) cron(file string, flags ...string) machine {
	m := machine{u.start(append([]string{"cron", file}, flags...)...)}
	m.said("jobs wait for their ticks")
	return m
}

// Two machines run each tick once between them. One is killed in the middle of a run: its command is gone before the other
// goes on, which makes up for that tick, with a higher token.
func TestCronOnTwoMachines(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	ran, stuck := filepath.Join(u.home, "ran"), filepath.Join(u.home, "stuck")
	file := u.crontab("STUCK="+stuck, `@every 1s poll --missed all -- echo $STILE_TICK $STILE_TOKEN $$ >>`+ran+
		`; if [ -e "$STUCK" ]; then echo $$ >"$STUCK.pid"; exec sleep 60; fi`)
	machines := []machine{u.cron(file, "--ttl", "6s"), u.cron(file, "--ttl", "6s")}
	rows := func() (list [][]string) {
		text, err := os.ReadFile(ran)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			list = append(list, strings.Fields(line))
		}
		return list
	}
	until(t, "three ticks have run", func() bool { return len(rows()) >= 3 })
	if err := os.WriteFile(stuck, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pid := 0
	until(t, "a run is stuck", func() bool {
		text, err := os.ReadFile(stuck + ".pid")
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && pid != 0
	})
	if err := os.Remove(stuck); err != nil {
		t.Fatal(err)
	}
	before := rows()
	killed := 0
	until(t, "one machine, and no other, says that it has a run under way", func() bool {
		var busy []int
		for i, m := range machines {
			if log := m.stderr.String(); strings.Count(log, "run begins") > strings.Count(log, "run done") {
				busy = append(busy, i)
			}
		}
		if len(busy) == 1 {
			killed = busy[0]
		}
		return len(busy) == 1
	})
	machines[killed].signal(syscall.SIGKILL)
	until(t, "the command is gone", func() bool { return demotest.Dead(pid) })
	until(t, "the other machine goes on", func() bool { return len(rows()) >= len(before)+3 })
	all := rows()
	last := before[len(before)-1]
	if all[len(before)][0] != last[0] {
		t.Fatalf("the tick %s was not made up for: %v", last[0], all[len(before):])
	}
	tick, token := time.Time{}, int64(0)
	for i, row := range slices.Delete(slices.Clone(all), len(before)-1, len(before)) {
		at, err := time.Parse(time.RFC3339, row[0])
		number, bad := strconv.ParseInt(row[1], 10, 64)
		if err != nil || bad != nil || i > 0 && at.Sub(tick) != time.Second || number <= token {
			t.Errorf("run %d is of tick %s with token %s, after %s with %d", i, row[0], row[1], tick, token)
		}
		tick, token = at, number
	}
	machines[1-killed].ends(syscall.SIGTERM)
}

// A run leaves no descriptor behind: a stile cron makes as many runs as there are ticks, for years.
func TestCronLeavesNoDescriptors(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	m := u.cron(u.crontab("@every 1s poll -- true"))
	open := func() (list []string) {
		names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if is, err := os.Readlink(name); err == nil && is == "anon_inode:[timerfd]" {
				list = append(list, name)
			}
		}
		return list
	}
	until(t, "three runs are done", func() bool { return strings.Count(m.stderr.String(), "run done") >= 3 })
	if list := open(); len(list) > 1 { // a fourth run may be under way
		t.Errorf("after three runs there are %d timers, want one at most: %v", len(list), list)
	}
	m.ends(syscall.SIGTERM)
}

// A SIGHUP that comes before the store is open does not end stile cron: a supervisor may send one at any time.
func TestCronReloadBeforeStore(t *testing.T) {
	u := newAccount(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	m := u.start("cron", u.crontab("@every 1s poll -- true"), "--url", "redis://"+silent.Addr().String())
	connection, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	m.signal(syscall.SIGHUP)
	m.signal(syscall.SIGTERM)
	if got, want := m.wait(), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("status %d, want %d: %s", got, want, m.stderr)
	}
}

// The file is read again on SIGHUP. A wrong one changes nothing; a job that changed finishes its run, and then runs as it
// is now.
func TestCronReload(t *testing.T) {
	u := newAccount(t)
	gate := filepath.Join(u.home, "gate")
	file := u.crontab(`@every 1s poll -- echo old; while [ ! -e ` + gate + ` ]; do sleep 0.05; done; echo finished`)
	m := u.cron(file)
	if got := m.line(); got != "old" {
		t.Fatalf("got %q", got)
	}
	u.crontab("@every 1s poll -- echo new", "61 * * * * other -- true")
	m.signal(syscall.SIGHUP)
	m.said(`err="` + file + `:2: job \"other\": schedule \"61 * * * *\": column 1, minute: end of range (61) above maximum (59): 61"`)
	u.crontab("# moved down", "@every 1s poll -- echo new")
	m.signal(syscall.SIGHUP)
	m.said("read the file again")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"finished", "new"} {
		if got := m.line(); got != want {
			t.Fatalf("got %q, want %q: %s", got, want, m.stderr)
		}
	}
	u.crontab("# none")
	m.signal(syscall.SIGHUP)
	m.said("jobs=0")
	if strings.Contains(m.stderr.String(), "level=ERROR msg=\"run") {
		t.Errorf("a run did not end well: %s", m.stderr)
	}
	m.ends(syscall.SIGINT)
}

// A job that is taken out of the file and put back while its run is under way goes on after that run, which nothing cuts
// off.
func TestCronReloadBringsAJobBack(t *testing.T) {
	u := newAccount(t)
	gate := filepath.Join(u.home, "gate")
	const other = "@every 1h other -- true"
	again := []string{other, `@every 1s poll -- echo run; while [ ! -e ` + gate + ` ]; do sleep 0.05; done; echo finished`}
	file := u.crontab(again...)
	m := u.cron(file)
	if got := m.line(); got != "run" {
		t.Fatalf("got %q", got)
	}
	for n, lines := range [][]string{{other}, again} {
		u.crontab(lines...)
		m.signal(syscall.SIGHUP)
		m.said(fmt.Sprintf(`"read the file again" file=%s jobs=%d`, file, n+1))
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"finished", "run"} {
		if got := m.line(); got != want {
			t.Fatalf("got %q, want %q: %s", got, want, m.stderr)
		}
	}
	m.ends(syscall.SIGINT)
}

// A machine whose clock was a year ahead leaves a record that keeps the job from running. The error gives the commands that
// remove it, as a shell takes them.
func TestCronRecordAhead(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	url := "sqlite://" + filepath.Join(u.home, "locks.db")
	u.at(url)
	c, err := stile.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, place := range []string{"poll/copy", "poll/last"} {
		tick := time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
		lease, err := c.Candidate(place, `{"tick":"`+tick+`","stage":"over","token":"7","outcome":"done"}`).TryLock(t.Context())
		if err == nil {
			err = lease.UnlockAfter(time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := u.cron(u.crontab("@every 1s poll -- true"))
	m.said("remove the record with")
	_, text, _ := strings.Cut(m.stderr.String(), "remove the record with ")
	text, _, _ = strings.Cut(text, ";")
	commands := strings.Split(text, " and ")
	if len(commands) != 2 {
		t.Fatalf("the error has the commands %q, want two", commands)
	}
	for _, command := range commands {
		u.must(strings.Fields(command)[1:]...)
	}
	m.said("run done")
	m.ends(syscall.SIGTERM)
}

// A run ends with stile cron, by SIGTERM, and its failure, its overrun and its variables are told.
func TestCronRuns(t *testing.T) {
	u := newAccount(t)
	file := u.crontab(
		"SHELL=/bin/sh", `GREETING = "hello world"`,
		`@every 1s poll --at-least 500ms --jitter 10ms -- echo "$GREETING from $STILE_NAME at $STILE_TICK until $STILE_DEADLINE, $STILE_TOKEN"; exit 3`,
		`@every 1s stuck --max-hold 1s -- echo $$; exec sleep 60`,
		`@every 1s long -- trap 'echo terminated; exit 7' TERM; echo waits; while :; do sleep 0.05; done`,
	)
	m := u.cron(file)
	m.said(`msg="run failed" job=poll`)
	m.said(`err="CMD ended with status 3"`)
	m.said(`msg="run cut off" job=stuck`)
	m.said(`msg="run begins" job=long`)
	var said []string
	for len(said) == 0 || said[len(said)-1] != "waits" { // before that it would die of the signal
		said = append(said, m.line())
	}
	until(t, "the failure is shown", func() bool {
		return regexp.MustCompile(`last tick .*: failed after .*: CMD ended with status 3`).MatchString(u.must("show", "poll"))
	})
	m.ends(syscall.SIGTERM)
	m.said(`msg="run stopped" job=long`)
	for line, err := m.out.ReadString('\n'); err == nil; line, err = m.out.ReadString('\n') {
		said = append(said, strings.TrimSpace(line))
	}
	for _, line := range said {
		if pid, err := strconv.Atoi(line); err == nil && !demotest.Dead(pid) {
			t.Errorf("process %d of a run lives", pid)
		}
	}
	for _, want := range []string{"hello world from poll at 20", "waits", "terminated"} {
		if !slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("nothing begins with %q: %q", want, said)
		}
	}
}

func TestCronCheck(t *testing.T) {
	u := newAccount(t)
	file := u.crontab("CRON_TZ=Europe/Berlin", "0 3 * * * nightly -- figures --all | tee log", "CRON_TZ=UTC @daily day -- true", "@every 1h hour -- true")
	out := u.must("cron", file, "--check")
	for _, want := range []string{
		"nightly  20", "CRON_TZ=Europe/Berlin 0 3 * * *  figures --all | tee log\n", "CRON_TZ=UTC @daily ", "  @every 1h ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
