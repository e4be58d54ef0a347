//go:build unix

package main

import (
	"fmt"
	"os"

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
	h.Logf("peers: "+format, args...)
	h.end()
	os.Exit(1)
}

// Cleanup is [servertest.TB].
func (h *host) Cleanup(f func()) { h.ended = append(h.ended, f) }

// TempDir is [servertest.TB].
func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "stile-peers-")
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
