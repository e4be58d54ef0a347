//go:build linux

package main

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestCoresIn(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{"0", "0"}, {"0,1", "0 1"}, {"0-1", "0 1"}, {"0,2-4,7", "0 2 3 4 7"}, {"5-5", "5"},
	} {
		cores, err := coresIn(tt.list)
		if got := strings.Join(cores, " "); err != nil || got != tt.want {
			t.Errorf("coresIn(%q) = %q, %v; want %q", tt.list, got, err, tt.want)
		}
	}
	for _, list := range []string{"", "a", "0-", "0,,1", "ff"} {
		if cores, err := coresIn(list); err == nil {
			t.Errorf("coresIn(%q) = %q; want an error", list, cores)
		}
	}
}

func TestTicksIn(t *testing.T) {
	const after = " S 1 2 3 0 -1 4194560 10 0 0 0 7 5 3 2 20 0 1 0 100 0 0"
	for stat, want := range map[string]int64{
		"12 (redis-server)" + after: 17, "12 (a (b) c 9 9)" + after: 17, "12 (x) Z": 0, "": 0,
	} {
		if got := ticksIn(stat); got != want {
			t.Errorf("ticksIn(%q) = %d, want %d", stat, got, want)
		}
	}
}

// serve runs a script until the test ends, and returns its process id after its first line.
func serve(t *testing.T, script string) int {
	t.Helper()
	server := exec.Command("sh", "-c", script)
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = server.Wait() // the way of its end does not matter
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server said %q, %v", line, err)
	}
	return server.Process.Pid
}

// The work of a process counts after its end, if its parent counts.
func TestWorked(t *testing.T) {
	server := serve(t, "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo done; read line")
	if took := worked([]int{server}); took < 2*clockTick {
		t.Errorf("a process that counted to 300,000 worked for %v", took)
	}
}

// TestPlace moves a server, and a process of the server, to one core and back.
func TestPlace(t *testing.T) {
	all := strings.Fields(coresOfAll(t, os.Getpid())[0])
	first := all[0]
	serve(t, "sh -c 'echo ready; read line'; true")
	started := descendants(os.Getpid())
	if len(started) < 2 {
		t.Fatalf("%d started %v; want the server and what that has started", os.Getpid(), started)
	}
	for _, cores := range []string{first, strings.Join(all, ",")} {
		if err := place(t.Context(), cores); err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(cores, ",", " ")
		if got := coresOfAll(t, started...); slices.ContainsFunc(got, func(one string) bool { return one != want }) {
			t.Errorf("on the cores %q there are %q", want, got)
		}
	}
	text, err := output(t.Context(), placement{program: first}.on("nproc")...)
	if err != nil || strings.TrimSpace(text) != "1" {
		t.Errorf("a program placed on one core sees %q, %v; want 1", text, err)
	}
}

// coresOfAll returns the cores of each process, with spaces between.
func coresOfAll(t *testing.T, pids ...int) (all []string) {
	t.Helper()
	for _, pid := range pids {
		cores, err := coresOf(t.Context(), pid)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Join(cores, " "))
	}
	return all
}
