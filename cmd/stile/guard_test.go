package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/servertest"
)

// family starts stile with the family as CMD, and returns when stile knows its group.
func (u *account) family(name string, flags ...string) (p *process, pids []int) {
	u.t.Helper()
	p = u.start(with(name, family, flags...)...)
	pids = []int{p.pid(), p.pid(), p.pid()}
	p.signal(syscall.SIGUSR1)
	if got := p.line(); got != "here" {
		u.t.Fatalf("CMD said %q", got)
	}
	return p, pids
}

// whatNextSees is a CMD that prints which of the processes it finds at work, then "holds", and ends with its stdin.
func whatNextSees(pids []int) []string {
	script := ""
	for _, pid := range pids {
		script += "if grep -qs '^State:.[RSDTt]' /proc/" + strconv.Itoa(pid) + "/status; then echo " + strconv.Itoa(pid) + "; fi; "
	}
	return []string{"--", "sh", "-c", script + "echo holds; cat >/dev/null"}
}

func TestClaimBrokenByHand(t *testing.T) {
	t.Parallel()
	for store, open := range map[string]func(t *testing.T) *account{
		"sqlite": newAccount,
		"mysql": func(t *testing.T) *account {
			return newAccount(t).at("mysql://root@" + servertest.MySQL(t).Addr + "/mysql")
		},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			brokenByHand(t, open(t))
		})
	}
}

func brokenByHand(t *testing.T, u *account) {
	lane := awake.Lane(t)
	const soon = 3 * time.Second // half a second, on a machine that has nothing else to do; the renewal is after ten
	p, pids := u.family("a", "--ttl", "30s")
	broken := time.Now()
	u.must("break", "a", "--yes", "--reason", "test")
	until(t, "CMD's group is gone", func() bool { return demotest.Living(pids) == nil })
	took := time.Since(broken)
	t.Logf("CMD's group was gone %v after the break", took.Round(time.Millisecond))
	lane.Within(took, soon, "CMD's group is gone after the break")
	want := `stile: run "a": the lock was lost while CMD ran: the store no longer has it: removed by hand or lost; ` +
		"it does not say which; CMD was ended, with its group; others may hold the lock now: stile show a\n"
	if got := p.wait(); got != 79 || p.stderr.String() != want {
		t.Errorf("status %d, want 79: %s; want %s", got, p.stderr, want)
	}
	if left := demotest.Living(pids); left != nil {
		t.Errorf("processes %v are left", left)
	}
}

// A claim that was broken so shortly before CMD ended that no renewal told of it.
func TestClaimBrokenBeforeTheEnd(t *testing.T) {
	u := newAccount(t)
	p := u.start(with("a", idle)...)
	p.line()
	u.must("break", "a", "--yes", "--reason", "test")
	p.stdin.Close()
	if got := p.wait(); got != 79 {
		t.Errorf("status %d, want 79: %s", got, p.stderr)
	}
}

func TestStileKilled(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second
	u := newAccount(t)
	lane := awake.Lane(t)
	p, pids := u.family("a", "--ttl", ttl.String())
	next := u.start(with("a", idle)...)
	until(t, "the next is in the queue", func() bool { return len(u.show("a").Claims) == 2 })
	p.signal(syscall.SIGKILL)
	died := time.Now()
	until(t, "CMD's group is gone", func() bool { return demotest.Living(pids) == nil })
	lane.Within(time.Since(died), ttl/2, "CMD's group is gone")
	next.line()
	lane.Within(time.Since(died), ttl*3/2, "the lock is free, with a ttl of %v", ttl)
}

func TestStileStopped(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	p, pids := u.family("a", "--ttl", "9s")
	next := u.start(with("a", whatNextSees(pids))...)
	until(t, "the next is in the queue", func() bool { return len(u.show("a").Claims) == 2 })
	p.signal(syscall.SIGSTOP)
	if got := next.line(); got != "holds" {
		t.Errorf("the next holder found process %s of CMD's group at work", got)
	}
	p.signal(syscall.SIGCONT)
	if got := p.wait(); got != 79 {
		t.Errorf("status %d, want 79: %s", got, p.stderr)
	}
	if got := p.stderr.String(); !strings.Contains(got, ": stile itself did not run for ") || strings.Contains(got, "store") {
		t.Errorf("got %q; want that stile did not run, and no word against the store", got)
	}
	if claims := u.show("a").Claims; len(claims) != 1 || claims[0].State != "holds" || claims[0].PID != next.cmd.Process.Pid {
		t.Errorf("the next holder was disturbed: %+v", claims)
	}
	next.stdin.Close()
	if got := next.wait(); got != 0 {
		t.Errorf("the next holder ended with status %d: %s", got, next.stderr)
	}
}

// A stop that is shorter than the lease does no harm.
func TestStileStoppedForAMoment(t *testing.T) {
	u := newAccount(t)
	p := u.start(with("a", idle)...)
	p.line()
	p.signal(syscall.SIGSTOP)
	p.signal(syscall.SIGCONT)
	p.stdin.Close()
	if got := p.wait(); got != 0 {
		t.Errorf("status %d: %s", got, p.stderr)
	}
}

// CMD cannot go on without its guard.
func TestGuardKilled(t *testing.T) {
	u := newAccount(t)
	p, pids := u.family("a")
	if err := syscall.Kill(guardOf(t, pids), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := p.wait(); got != 137 || !strings.Contains(p.stderr.String(), "the guard that CMD runs under has ended") {
		t.Errorf("status %d, want 137: %s", got, p.stderr)
	}
	until(t, "CMD's group is gone", func() bool { return demotest.Living(pids) == nil })
	if claims := u.show("a").Claims; len(claims) != 0 {
		t.Errorf("the lock is still taken: %+v", claims)
	}
}

// A guard that does nothing is not waited for.
func TestGuardStopped(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	p, pids := u.family("a", "--max-hold", "8s", "--grace", "200ms")
	if err := syscall.Kill(guardOf(t, pids), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if got := p.wait(); got != 79 || demotest.Living(pids) != nil {
		t.Errorf("status %d, want 79: %s; processes %v are left", got, p.stderr, demotest.Living(pids))
	}
}

// Nor is a guard that does not even say that CMD runs.
func TestGuardSilent(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	holder := u.start(with("a", idle)...)
	holder.line()
	p := u.start(with("a", idle, "--ttl", "5s")...)
	until(t, "the next is in the queue", func() bool { return len(u.show("a").Claims) == 2 })
	guard := childrenOf(t, p.cmd.Process.Pid)
	if len(guard) != 1 {
		t.Fatalf("stile has children %v, want its guard", guard)
	}
	if err := syscall.Kill(guard[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	holder.stdin.Close()
	if got := p.wait(); got != 137 || !demotest.Dead(guard[0]) {
		t.Errorf("status %d, want 137: %s", got, p.stderr)
	}
}

// CMD is not begun when the lease is over: here stile and its guard stand still from the grant until another has the lock.
func TestLateStart(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	ran := filepath.Join(u.home, "ran")
	holder := u.start(with("a", idle)...)
	holder.line()
	p := u.start("run", "a", "--ttl", "5s", "--", "touch", ran)
	until(t, "stile is in the queue", func() bool { return len(u.show("a").Claims) == 2 })
	guard := childrenOf(t, p.cmd.Process.Pid)
	if len(guard) != 1 {
		t.Fatalf("stile has children %v, want its guard", guard)
	}
	if err := syscall.Kill(guard[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	holder.stdin.Close()
	until(t, "stile has the lock", func() bool {
		claims := u.show("a").Claims
		return len(claims) == 1 && claims[0].State == "holds" && claims[0].PID == p.cmd.Process.Pid
	})
	p.signal(syscall.SIGSTOP)
	next := u.start(with("a", idle)...)
	next.line()
	if err := syscall.Kill(guard[0], syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGCONT)
	got, want := p.wait(), `stile: run "a": the lock was lost before CMD began: `
	if said := p.stderr.String(); got != 79 || !strings.HasPrefix(said, want) || !strings.Contains(said, "; CMD was not begun; others may hold") ||
		!strings.Contains(said, ": stile itself did not run for ") {
		t.Errorf("status %d, want 79: %s; want %s, and that stile did not run", got, said, want)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("CMD ran while another held the lock")
	}
	if claims := u.show("a").Claims; len(claims) != 1 || claims[0].State != "holds" || claims[0].PID != next.cmd.Process.Pid {
		t.Errorf("the next holder was disturbed: %+v", claims)
	}
}

func childrenOf(t *testing.T, pid int) (list []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && !demotest.Dead(child) && parent(t, child) == pid {
			list = append(list, child)
		}
	}
	return list
}

// guardOf returns the parent of the group's leader.
func guardOf(t *testing.T, pids []int) int {
	t.Helper()
	leader, err := syscall.Getpgid(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	guard := parent(t, leader)
	if guard < 2 {
		t.Fatal("CMD has no guard") // 0 and 1 are not processes to send a signal to
	}
	return guard
}

// parent returns the parent of a process, or 0 if it has ended.
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	ppid, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// A store that does not answer any more: CMD is told to end in time, and killed in time.
func TestStoreUnplugged(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	server := servertest.Redis(t)
	u := newAccount(t).at("redis://" + server.Addr)
	lane := awake.Lane(t)
	p, pids := u.family("a", "--ttl", ttl.String())
	polite := u.start("run", "b", "--ttl", ttl.String(), "--", "sh", "-c", `trap "echo told; exit 5" TERM; echo ready; while :; do sleep 1000 & wait; done`)
	polite.line()
	until(t, "the lease is some seconds old, and not renewed yet", func() bool {
		left := u.show("a").Claims[0].Remaining
		return left != nil && time.Duration(*left) < ttl*17/20
	})
	server.Pause()
	paused := time.Now()
	until(t, "CMD's group is gone", func() bool { return demotest.Living(pids) == nil })
	lane.Within(time.Since(paused), ttl, "CMD's group is gone after the store")
	if got := polite.line(); got != "told" {
		t.Errorf("the other CMD said %q", got)
	}
	server.Resume()
	for _, p := range []*process{p, polite} {
		if got := p.wait(); got != 79 || !strings.Contains(p.stderr.String(), "it could not be renewed in time") {
			t.Errorf("status %d, want 79: %s", got, p.stderr)
		}
	}
}

// The guard, started by hand, does nothing.
func TestGuardAlone(t *testing.T) {
	u := newAccount(t)
	if r := u.run(guard.Arg); r.code != 0 || r.out != "" || r.err != "" {
		t.Errorf("%+v", r)
	}
}
