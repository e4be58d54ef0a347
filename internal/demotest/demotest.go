//go:build unix

// Package demotest is what the tests of programs with processes share: which processes live or are stopped, which
// signals they hear, whether the machine stood still, and pictures.
package demotest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// still is how long the machine may stand still during a lease, which lasts a second at least.
const still = time.Second / 5

// HearSignals undoes the ignoring of signals that the tests inherited, as from nohup and for background jobs, for the
// programs that they start: a shell cannot trap a signal that was ignored when it began.
func HearSignals(signals ...syscall.Signal) {
	for _, s := range signals {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// OnceStill runs a demonstration. It repeats a run in which the machine stood still for a part of the leases, up to ten
// runs.
func OnceStill(t *testing.T, run func()) {
	t.Helper()
	for range 10 {
		longest := stillness()
		run()
		stood := longest()
		if stood <= still {
			return
		}
		t.Logf("the machine stood still for %v", stood)
	}
}

// stillness begins a measurement. longest ends it, and returns the longest time in which nothing could run.
func stillness() (longest func() time.Duration) {
	const beat = 10 * time.Millisecond
	var most time.Duration
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			now := time.Now()
			most, last = max(most, now.Sub(last)-beat), now
		}
	}()
	return func() time.Duration {
		close(done)
		<-ended
		return most
	}
}

// Dead reports whether a process has ended, reaped or not.
func Dead(pid int) bool {
	if runtime.GOOS != "linux" {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// Living returns the processes that have not ended.
func Living(pids []int) (left []int) {
	for _, pid := range pids {
		if !Dead(pid) {
			left = append(left, pid)
		}
	}
	return left
}

// Children returns the children of a process, and the stopped one of them; 0 for none.
func Children(t *testing.T, pid int) (all []int, stopped int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var child, parent int
		var state string
		begin, rest, _ := strings.Cut(string(text), " (")
		_, rest, _ = strings.Cut(rest, ") ")
		if _, err := fmt.Sscan(begin, &child); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != pid {
			continue
		}
		all = append(all, child)
		if state == "T" {
			stopped = child
		}
	}
	return all, stopped
}

// WantPicture fails unless a picture has some texts.
func WantPicture(t *testing.T, path string, texts ...string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text, new(struct{ XMLName xml.Name })); err != nil {
		t.Error(err)
	}
	for _, want := range texts {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
}
