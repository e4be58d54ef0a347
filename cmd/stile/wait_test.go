package main

import (
	"github.com/stilelock/stile/internal/awake"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// --wait bounds all that comes before CMD, whatever the store does, and a store that does not answer is not somebody who
// holds the lock.
func TestWaitIsBounded(t *testing.T) {
	const wait = 6 * time.Second
	const most = wait + 4*time.Second // Patience alone would be 5 s more, on top of the waiting
	for _, when := range []string{"before", "meanwhile"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			server := servertest.Redis(t)
			u := newAccount(t).at("redis://" + server.Addr)
			lane := awake.Lane(t)
			holder := u.start("run", "a", "--", "cat")
			until(t, "the lock is held", func() bool { return len(u.show("a").Claims) == 1 })
			if when == "before" {
				server.Pause() // it hangs
			}
			begin := time.Now()
			var waiters []*process
			for _, args := range [][]string{{"run", "a", "--", "true"}, {"lock", "a"}, {"elect", "a", "--", "true"}} {
				waiters = append(waiters, u.start(slices.Insert(args, 2, "--wait", wait.String())...))
			}
			if when == "meanwhile" {
				until(t, "all are in the queue", func() bool { return len(u.show("a").Claims) == 4 })
				server.Stop() // it is gone
			}
			for _, p := range waiters {
				if got := p.wait(); got != 69 || strings.Contains(p.stderr.String(), "held by") {
					t.Errorf("%v: status %d, %s; want 69", p.cmd.Args[1:], got, p.stderr)
				}
				lane.Within(time.Since(begin), most, "%v ends, and waits for %v", p.cmd.Args[1:], wait)
			}
			if when == "before" {
				server.Resume()
			}
			holder.stdin.Close()
		})
	}
}

// What can never be done is not worth another try.
func TestForeignValue(t *testing.T) {
	server := servertest.Redis(t)
	u := newAccount(t).at("redis://" + server.Addr)
	u.lock("a")
	keys, ok := server.Redis([]string{"KEYS", "*a*"}).([]any)
	if !ok || len(keys) == 0 {
		t.Fatalf("keys %v", keys)
	}
	u.must("unlock", "a")
	for _, key := range keys {
		server.Redis([]string{"DEL", key.(string)}, []string{"SET", key.(string), "a letter"})
	}
	for _, args := range [][]string{{"run", "a", "--", "true"}, {"lock", "a"}, {"run", "a", "--try", "--", "true"}, {"show", "a"}} {
		if got := u.run(args...); got.code != 64 {
			t.Errorf("%v: status %d, %s; want 64", args, got.code, got.err)
		}
	}
}
