//go:build unix

package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/stilelock/stile/internal/servertest"
)

// A host is the servertest.TB of a program: it ends the program if a server does not start.
type host struct {
	ended []func()
}

// Helper is [servertest.TB].
func (h *host) Helper() {}

// Logf is [servertest.TB].
func (h *host) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatalf is [servertest.TB].
func (h *host) Fatalf(format string, args ...any) {
	h.Logf("bench: "+format, args...)
	h.end()
	os.Exit(1)
}

// Cleanup is [servertest.TB].
func (h *host) Cleanup(f func()) { h.ended = append(h.ended, f) }

// TempDir is [servertest.TB].
func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "stile-bench-")
	if err != nil {
		h.Fatalf("%v", err)
	}
	h.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// end does what was left for the end, in reverse order, once.
func (h *host) end() {
	for ; len(h.ended) > 0; h.ended = h.ended[:len(h.ended)-1] {
		h.ended[len(h.ended)-1]()
	}
}

var _ servertest.TB = (*host)(nil)

// counts is how often the server did each of what it does, those inside scripts included.
type counts map[string]int64

// sentMessages is the count of what the server sent, answers and notifications, where it tells.
const sentMessages = "sent"

// since returns how many requests and how many commands the server has run since an earlier count. What only scripts run
// is no request.
func (c counts) since(before counts, inside []string) (requests, commands int64) {
	for name, n := range c {
		if name == sentMessages {
			continue
		}
		n -= before[name]
		commands += n
		if !slices.Contains(inside, name) {
			requests += n
		}
	}
	return requests, commands
}
